"""The same objects with no cluster: containers of Jobs and Deployments run as local processes.

It exists so that a newcomer can run the main job on a laptop, and so that the whole path can be tested with a real
trainer and a real vLLM. What decides and renders is the operator's own code; here is only what a cluster would do.
"""

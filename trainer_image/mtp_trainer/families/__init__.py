"""What differs between model families, as data; everything else in the trainer is the same for all of them."""

from mtp_trainer.families.descriptor import Family, HeadShape
from mtp_trainer.families.registry import FAMILIES, family_for

__all__ = ["FAMILIES", "Family", "HeadShape", "family_for"]

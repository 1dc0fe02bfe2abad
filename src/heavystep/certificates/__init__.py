"""Did a run keep the theory's promises? :func:`certify` checks it, result by result."""

from heavystep.certificates.certify import certify
from heavystep.certificates.check import Certificate, Check

__all__ = ["Certificate", "Check", "certify"]

"""Recorded runs checked against the theory, result by result: :func:`certify`."""

from heavystep.certificates.averaged import certify_averaged
from heavystep.certificates.certify import certify
from heavystep.certificates.check import Certificate, Check

__all__ = ["Certificate", "Check", "certify", "certify_averaged"]

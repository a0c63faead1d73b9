"""The rest of the package p4 is PyPI's p4runtime, which lacks p4.tmp."""
import pkgutil

__path__ = pkgutil.extend_path(__path__, __name__)

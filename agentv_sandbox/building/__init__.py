"""``ImagePlan`` -> ``Image``: base, artefacts, installation, proof. Cached by content.

``ensure``     one image for one plan: reuse, lock file, build
``resolving``  plan -> exact files; ``base``, ``apt``, ``wheels``, ``npm`` each do their part
``fetch``      the host's content-addressed cache; ``credentials``, ``pipconf`` and ``mirror`` feed it
``install``    the one container in which everything is installed, without network
``verify``     the checks inside the finished image
``store``      images as a user handles them: list, clean
``exchange``   images as files: export, import
"""

from agentv_sandbox.building.ensure import ensure_image
from agentv_sandbox.building.exchange import export_image, import_image, load_saved
from agentv_sandbox.building.lock import LOCK_NAME, sbom_path
from agentv_sandbox.building.store import StoredImage, clean_images, list_images, prune_images, recorded_image
from agentv_sandbox.building.verify import ImageCandidate, prove
from agentv_sandbox.fetching.events import sentence, size_text

__all__ = [
    "LOCK_NAME",
    "ImageCandidate",
    "StoredImage",
    "clean_images",
    "ensure_image",
    "export_image",
    "import_image",
    "list_images",
    "load_saved",
    "prove",
    "prune_images",
    "recorded_image",
    "sbom_path",
    "sentence",
    "size_text",
]

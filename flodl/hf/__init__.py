"""Models of transformers as flow graphs; needs `pip install "transformers>=4.57,<5"`."""

from flodl.hf.cache import HuggingFaceError as HuggingFaceError
from flodl.hf.families import port as port
from flodl.hf.switch import graph as graph

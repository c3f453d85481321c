"""Models of transformers as flow graphs; needs `pip install 'flodl[hf,torch]'`."""

from flodl.hf.cache import HuggingFaceError as HuggingFaceError
from flodl.hf.families import port as port
from flodl.hf.heads import Answer as Answer
from flodl.hf.heads import Filling as Filling
from flodl.hf.heads import Head as Head
from flodl.hf.heads import LabelScore as LabelScore
from flodl.hf.heads import TokenLabel as TokenLabel
from flodl.hf.heads import head as head
from flodl.hf.switch import graph as graph

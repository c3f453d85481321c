"""Batches for training: any data set, an order that is a pure function, on the device or on its way there."""

from flodl.data.batch import Batch as Batch
from flodl.data.builder import DataLoaderBuilder as DataLoaderBuilder
from flodl.data.known.cifar10 import Cifar10 as Cifar10
from flodl.data.known.mnist import Mnist as Mnist
from flodl.data.known.shakespeare import Shakespeare as Shakespeare
from flodl.data.known.token_shards import TokenShards as TokenShards
from flodl.data.loader import DataLoader as DataLoader
from flodl.data.protocols import BatchDataSet as BatchDataSet
from flodl.data.protocols import DataSet as DataSet
from flodl.data.protocols import Sampler as Sampler
from flodl.data.samplers import RandomSampler as RandomSampler
from flodl.data.samplers import SequentialSampler as SequentialSampler

"""The flow-graph runtime: graphs as torch modules, written fluently or as classes."""

from flodl.errors import BuildError as BuildError
from flodl.errors import FlodlError as FlodlError
from flodl.errors import FlowError as FlowError
from flodl.errors import GraphError as GraphError
from flodl.flow.builder import FlowBuilder as FlowBuilder
from flodl.flow.builder import call as call
from flodl.flow.handle import Flow as Flow
from flodl.flow.module import FlowModule as FlowModule
from flodl.flow.module import subflow as subflow
from flodl.graph.graph import Graph as Graph
from flodl.nn.routers import ArgmaxSelector as ArgmaxSelector
from flodl.nn.routers import FixedSelector as FixedSelector
from flodl.nn.routers import LearnedHalt as LearnedHalt
from flodl.nn.routers import Reshape as Reshape
from flodl.nn.routers import SigmoidRouter as SigmoidRouter
from flodl.nn.routers import SoftmaxRouter as SoftmaxRouter
from flodl.nn.routers import StateAdd as StateAdd
from flodl.nn.routers import ThresholdHalt as ThresholdHalt
from flodl.nodes.merge import Add as Add
from flodl.nodes.merge import Cat as Cat
from flodl.nodes.merge import Max as Max
from flodl.nodes.merge import Mean as Mean
from flodl.nodes.merge import MergeOp as MergeOp
from flodl.nodes.merge import Mul as Mul
from flodl.nodes.merge import Stack as Stack

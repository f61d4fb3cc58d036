"""A `_target_` in a configuration runs no code but that of allowed classes which suit its place."""

import importlib
import inspect
import json
import os
import pickle
import pkgutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue
from sklearn.base import BaseEstimator
from sklearn.utils import all_estimators

import pate
from pate.accounting import Accountant, RdpAccountant
from pate.aggregators import Aggregator
from pate.config import CONFIG_FOLDER, register_configs
from pate.config.build import build, build_aggregator
from pate.config.classes import (
    classes_allowed_in_argument,
    classes_allowed_in_group,
    find_class,
    installed_parts,
    trusted_class,
)
from pate.config.schema import describe_members, names_in_config_group
from pate.data import (
    Arrays,
    CelebA,
    DigitsGrid,
    HuggingFace,
    ImageFolder,
    Table,
    WordNet40,
)
from pate.features.featured_data import FeaturedData
from pate.mechanisms import FixedKRegularizer
from pate.models import Engine, SklearnTeacher, Student, Teacher, Voter
from pate.models.teacher import IsolatedTeacher
from pate.validation import InvalidValue
from tests.refusals import ANY, Refusal, refused_parameter

CODE = "open(r'{mark}', 'w').close()"


def node_of(target: Any, *, arguments: Sequence[Any] = (), **fields: Any) -> dict[str, Any]:
    """Returns a configuration that names a class or function, with arguments by position and by name."""
    node = {"_target_": target, **fields}
    if arguments:
        node["_args_"] = list(arguments)
    return node


RUNSTRING = "pate.validation.np.testing.runstring"
ACCOUNTANT_PATH = "pate.accounting.RdpAccountant"
PATH = node_of(target="pate.files.paths.Path", arguments=["{mark}"])
ATTACKS_ON_HYDRA: dict[str, Any] = {
    "through a module of ours": node_of(target=RUNSTRING, arguments=[CODE, {}]),
    "keywords": node_of(target=RUNSTRING, astr=CODE, dict={}),
    "a script": node_of(
        target="sklearn.utils._testing.assert_run_python_script_without_output", source_code=CODE
    ),
    "torch.hub": node_of(
        target="torch.hub.load", repo_or_dir="{folder}", model="x", source="local"
    ),
    "torch.load": node_of(target="torch.load", f="{folder}/pickle", weights_only=False),
    "joblib.load": node_of(
        target="sklearn.utils.validation.joblib.load", filename="{folder}/pickle"
    ),
    "joblib.dump": node_of(
        target="sklearn.utils.validation.joblib.dump", value=1, filename="{mark}"
    ),
    "parallel": node_of(target="sklearn.utils.parallel.joblib.load", filename="{folder}/pickle"),
    "np.load": node_of(target="pate.validation.np.load", file="{folder}/pickle", allow_pickle=True),
    "np.savetxt": node_of(target="pate.validation.np.savetxt", fname="{mark}", X=[1]),
    "a function of ours": node_of(target="pate.files.atomic.write_text", path=PATH, text="x"),
    "a method": node_of(target="pate.files.paths.Path.touch", arguments=[PATH]),
    "a nested one": node_of(
        target=ACCOUNTANT_PATH, orders=[node_of(target=RUNSTRING, arguments=[CODE, {}])]
    ),
}
"""Attacks that run code, or write a file, where Hydra itself looks a target up."""

ATTACKS: dict[str, Any] = ATTACKS_ON_HYDRA | {
    "a module that is not there": node_of(
        target="pate.durable.np.testing.runstring", arguments=[CODE, {}]
    ),
    "torch through a module of ours": node_of(target="pate.device.torch.load", f="{mark}"),
    "a method of a class of ours": node_of(
        target="pate.teachers.CheckpointStore.save", arguments=[1, 2, 3]
    ),
    "os": node_of(target="pate.files.paths.os.system", arguments=["touch {mark}"]),
    "pickle": node_of(target="pate.models.sklearn.pickle.loads", arguments=["x"]),
    "builtins": node_of(target="builtins.eval", arguments=[CODE]),
    "its builtins": node_of(target="pate.validation.__builtins__.eval", arguments=[CODE]),
    "a class by its dunders": node_of(
        target="pate.accounting.RdpAccountant.__init__.__globals__.os.system"
    ),
    "its class": node_of(target="pate.accounting.RdpAccountant.__class__", arguments=["x", [], {}]),
    "a test of sklearn": node_of(target="sklearn.tests.test_base.MyEstimator"),
    "its conftest": node_of(target="sklearn.conftest.pytest"),
    "nothing": node_of(target=""),
    "a word": node_of(target="pate"),
    "a number": node_of(target=3),
    "a node": node_of(target=node_of(target=ACCOUNTANT_PATH)),
    "a space": node_of(target="pate.accounting. RdpAccountant"),
    "a path": node_of(target="pate/accounting.RdpAccountant"),
    "a look-alike": node_of(target="pate.accоunting.RdpAccountant"),  # noqa: RUF001 - the о is Cyrillic
    "another package": node_of(target="patent.Thing"),
    "a data set": node_of(target="pate.data.WordNet40"),
    "a store": node_of(target="pate.teachers.CheckpointStore", folder="{mark}"),
    "its base": node_of(target="pate.accounting.Accountant"),
    "no class": {"orders": [2.0]},
    "partial": node_of(target=ACCOUNTANT_PATH, _partial_=True),
    "arguments by place": node_of(target=ACCOUNTANT_PATH, arguments=[[2.0]]),
    "conversion": node_of(target=ACCOUNTANT_PATH, _convert_="object"),
    "recursion": node_of(target=ACCOUNTANT_PATH, _recursive_=False),
    "mode": node_of(target=ACCOUNTANT_PATH, _mode_="x"),
    "nested where plain values are": node_of(
        target=ACCOUNTANT_PATH, orders=node_of(target=ACCOUNTANT_PATH)
    ),
}


class WriterWhenUnpickled:
    """An object whose pickle creates a folder when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def with_folder(node: Any, folder: Path) -> Any:
    """Returns a copy of a node with a folder in place of `{folder}`, and a path in it in place of `{mark}`.

    The path is that of the file `ran`, which an attack creates if it succeeds.
    """
    return json.loads(
        json.dumps(node).replace("{mark}", f"{folder}/ran").replace("{folder}", str(folder))
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns a folder with a pickle and a hubconf.py that create the file `ran` if they are executed."""
    (tmp_path / "pickle").write_bytes(
        pickle.dumps(WriterWhenUnpickled(mark=tmp_path / "ran"), protocol=2)
    )
    (tmp_path / "hubconf.py").write_text(CODE.replace("{mark}", str(tmp_path / "ran")))
    return tmp_path


@pytest.mark.parametrize("name", ATTACKS)
def test_target_other_than_an_accountant_is_refused(name: str, folder: Path) -> None:
    """An attack, whose `_target_` names other code than an accountant, is refused in one line as an accountant.

    The code does not run.
    """
    node = with_folder(node=ATTACKS[name], folder=folder)
    with pytest.raises(InvalidValue, match=r": expected ") as caught:
        build(OmegaConf.create(node), slot="accountant")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    assert not (folder / "ran").exists()


@pytest.mark.process
@pytest.mark.parametrize("name", ATTACKS_ON_HYDRA)
def test_refused_targets_do_run_under_hydras_instantiate(name: str, folder: Path) -> None:
    """`hydra.utils.instantiate` runs the code of these attacks, which shows that they are real."""
    with suppress(InstantiationException, FileNotFoundError):  # after it ran
        instantiate(with_folder(node=ATTACKS_ON_HYDRA[name], folder=folder), _convert_="all")
    assert (folder / "ran").exists()


def test_interpolation_in_a_resolved_text_stays_text(tmp_path: Path) -> None:
    """`build` refuses a text with ${...} that `instantiate` resolves a second time, to build an unchecked class."""
    mark = tmp_path / "ran"
    text = f"${{oc.create:'{{_target_: pate.validation.np.savetxt, fname: {mark}, X: [1]}}'}}"
    with suppress(InstantiationException):
        instantiate(node_of(target=ACCOUNTANT_PATH, orders=text))
    assert mark.exists()
    mark.unlink()
    node = OmegaConf.create(node_of(target=ACCOUNTANT_PATH, orders=f"\\{text}"))
    with refused_parameter("accountant"):
        build(node, slot="accountant")
    assert not mark.exists()


@pytest.mark.parametrize("target", ["lonely.Thing", "lonely_too.inner.Thing"])
def test_module_is_loaded_only_if_allowed(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `_target_` in a module that is not allowed is refused, also within a list, and the module is not imported.

    A prefix that ends within a name, such as `lone.` for `lonely`, allows nothing.
    """
    (tmp_path / "lonely.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    (tmp_path / "lonely_too").mkdir()
    (tmp_path / "lonely_too" / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for node in (
        node_of(target),
        node_of(target="pate.student.LinearStudent", rank=[{"x": node_of(target)}]),
    ):
        with refused_parameter(
            "_target_", value=ANY, rule_words="name that begins with pate. or sklearn. or"
        ):
            build(OmegaConf.create(node), slot="student", allowed_targets=["lone.", "lonely_t"])
    assert not (tmp_path / "ran").exists()


def test_class_imported_by_an_allowed_module_is_refused() -> None:
    """A class is refused if an allowed module only imports it, such as `Path`.

    Values of `allowed_targets` that are no names of modules are refused, too.
    """
    for allowed in ("", ".", "a b", "a/b", "__main__", "os.__init__"):
        with refused_parameter("allowed_targets", value=ANY, rule_words="names of modules"):
            build(
                OmegaConf.create(node_of(target=ACCOUNTANT_PATH)),
                slot="accountant",
                allowed_targets=[allowed],
            )
    for name in ("Path", "subprocess.Popen", "ModuleType", "cache"):
        with refused_parameter("_target_", value=ANY, rule_words="class that"):
            build(
                OmegaConf.create(node_of(target=f"{__name__}.{name}")),
                slot="data",
                allowed_targets=[f"{__name__}."],
            )


def modules_of(package: ModuleType) -> Iterator[ModuleType]:
    """Yields a package and its modules, without tests and without modules that cannot be imported here."""
    yield package
    for found_module in pkgutil.walk_packages(
        package.__path__, f"{package.__name__}.", onerror=lambda _: None
    ):
        if {"tests", "conftest", "__main__"} & set(found_module.name.split(".")):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                yield importlib.import_module(found_module.name)
            except ImportError:
                continue


@cache
def objects_by_dotted_name() -> dict[str, Any]:
    """Returns every name in the modules of pate and scikit-learn, and every name in modules that these import."""
    import sklearn

    objects_by_name: dict[str, Any] = {}
    module_ids: set[int] = set()
    for module in (*modules_of(pate), *modules_of(sklearn)):
        for name, imported in list(vars(module).items()):
            objects_by_name[f"{module.__name__}.{name}"] = imported
            if isinstance(imported, ModuleType) and id(imported) not in module_ids:
                module_ids.add(id(imported))
                for inner_name, inner_object in list(vars(imported).items()):
                    objects_by_name[f"{module.__name__}.{name}.{inner_name}"] = inner_object
    return objects_by_name


def package_of(value: Any) -> str:
    """Returns the name of the package in which a value is defined."""
    return str(getattr(value, "__module__", "")).partition(".")[0]


@pytest.mark.slow
def test_names_resolve_only_to_classes_of_their_own_package() -> None:
    """Of over 20,000 names in pate and scikit-learn, `find_class` finds only classes that the package itself defines.

    No module, function, or class of another package is found.
    """
    reached = {
        dotted_name: cls
        for dotted_name in objects_by_dotted_name()
        if (cls := find_class(dotted_name)) is not None
    }
    for dotted_name, cls in reached.items():
        assert isinstance(cls, type) and package_of(cls) == dotted_name.partition(".")[0], (
            dotted_name
        )
        assert not isinstance(objects_by_dotted_name()[dotted_name], ModuleType), dotted_name
    nowhere = {
        dotted_name
        for dotted_name, value in objects_by_dotted_name().items()
        if dotted_name not in reached and callable(value)
    }
    assert len(objects_by_dotted_name()) > 20_000 and len(nowhere) > 10_000 and len(reached) > 1_000
    assert {"pate.validation.np.testing", "pate.files.atomic.write_text"} & reached.keys() == set()


OURS = ("pate", "sklearn")
BASES = {
    "accountant": Accountant,
    "aggregator": Aggregator,
    "engine": Engine,
    "estimator": BaseEstimator,
    "student": Student,
    "teacher": Voter,
}


@pytest.mark.slow
@pytest.mark.parametrize("group", BASES)
def test_group_accepts_exactly_the_subclasses_of_its_base(group: str) -> None:
    """A group accepts only subclasses of its base class that pate and scikit-learn define, and all those of pate.

    Abstract classes and classes within functions may be refused. All estimators of scikit-learn are accepted as such.
    """
    accepted_classes = set()
    for dotted_name in objects_by_dotted_name():
        try:
            accepted_classes.add(
                trusted_class(
                    dotted_name,
                    allowed_classes=classes_allowed_in_group(group),
                    trusted_prefixes=("pate.", "sklearn."),
                )
            )
        except InvalidValue:
            continue
    shipped_classes = {
        value
        for value in objects_by_dotted_name().values()
        if issubclass(type(value), type) and package_of(value) in OURS
    }
    shipped_subclasses = {
        cls
        for cls in shipped_classes
        if issubclass(cls, BASES[group]) and not inspect.isabstract(cls)
    }
    refusable_classes = {
        cls
        for cls in shipped_subclasses - accepted_classes
        if cls.__module__.startswith("sklearn.") or "<locals>" in cls.__qualname__
    }
    assert accepted_classes == shipped_subclasses - refusable_classes and accepted_classes
    if group == "estimator":
        assert {cls for _, cls in all_estimators()} <= accepted_classes


@pytest.mark.slow
def test_data_group_accepts_classes_with_load() -> None:
    """Of the classes of pate and scikit-learn, the data group accepts only the shipped readers and `FeaturedData`."""
    allowed_classes = classes_allowed_in_group("data")
    readers = {
        cls
        for dotted_name in objects_by_dotted_name()
        if (cls := find_class(dotted_name)) is not None and allowed_classes.accepts_class(cls)
    }
    public = {
        Arrays,
        CelebA,
        DigitsGrid,
        HuggingFace,
        ImageFolder,
        Table,
        WordNet40,
    }
    assert readers == public | {FeaturedData}  # which computes features of another reader's records


class Theirs:
    """A user's class that is not part of a run."""


@dataclass
class Holder:
    """A user's class that holds parts of a run, in fields with each kind of annotation; no holder of records."""

    many: list[Teacher] = field(default_factory=list)
    either: RdpAccountant | str | None = None
    anything: Any = None
    own: dict[str, Theirs] = field(default_factory=dict)
    plain: float = 0.0
    called: Callable[[int], float] | None = None
    named: Any = field(default=None, metadata={"kind": "engine"})

    def load(self) -> None: ...


class Unannotated:
    """A user's class whose argument has no annotation."""

    def __init__(self, inner, rank: int = 0):
        self.inner = inner

    def load(self) -> None: ...


NESTED: list[tuple[type | None, str, type, bool]] = [
    (Holder, "many", IsolatedTeacher, True),
    (Holder, "either", RdpAccountant, True),
    (Holder, "anything", SklearnTeacher, True),
    (Holder, "anything", Path, False),
    (Holder, "called", FixedKRegularizer, True),
    (Holder, "own", Theirs, True),
    (Holder, "plain", Theirs, False),
    (Holder, "named", SklearnTeacher, False),
    (Unannotated, "inner", RdpAccountant, True),
    (Unannotated, "inner", Path, False),
    (SklearnTeacher, "estimator", BaseEstimator, True),
    (SklearnTeacher, "estimator", SklearnTeacher, False),
    (None, "steps", BaseEstimator, True),
    (None, "steps", RdpAccountant, False),
]


@pytest.mark.parametrize(("outer_class", "field_name", "value_class", "is_accepted"), NESTED)
def test_field_accepts_classes_in_its_annotation(
    outer_class: type | None, field_name: str, value_class: type, is_accepted: bool
) -> None:
    """A field of a class accepts objects of a class if and only if the annotation of the field covers that class.

    Args:
        outer_class: the class with the field; None for any class of scikit-learn, which has no annotations.
        field_name: the name of the field.
        value_class: the class of the objects.
        is_accepted: whether the field accepts them.
    """
    assert (
        classes_allowed_in_argument(outer_class, field_name).accepts_class(value_class)
        is is_accepted
    )


LOGISTIC = node_of(target="sklearn.linear_model.LogisticRegression", C=3)
STEPS = [["scale", node_of(target="sklearn.preprocessing.StandardScaler")], ["fit", LOGISTIC]]
PIPELINE = node_of(target="sklearn.pipeline.Pipeline", steps=STEPS)
FOLDS = node_of(target="sklearn.model_selection.StratifiedKFold", n_splits=2)
SEARCH = node_of(
    target="sklearn.model_selection.GridSearchCV",
    estimator=PIPELINE,
    param_grid={"fit__C": [1.0]},
    cv=FOLDS,
)


def test_estimators_within_estimators_are_built() -> None:
    """Nested `_target_`s build a teacher's estimator, such as a grid search over a pipeline, and a kernel."""
    teacher = build(
        OmegaConf.create(node_of(target="pate.teachers.SklearnTeacher", estimator=SEARCH)),
        slot="teacher",
    )
    assert (teacher.estimator.estimator.steps[1][1].C, teacher.estimator.cv.n_splits) == (3, 2)
    kernel = node_of(target="sklearn.gaussian_process.kernels.RBF", length_scale=2.0)
    process = node_of(target="sklearn.gaussian_process.GaussianProcessClassifier", kernel=kernel)
    assert build(OmegaConf.create(process), slot="estimator").kernel.length_scale == 2.0


@pytest.mark.parametrize(
    ("node", "refusal"),
    [
        (
            PIPELINE | {"memory": "/tmp/cache"},
            refused_parameter("estimator.memory", value=ANY, rule_words="null: a cache"),
        ),
        (
            SEARCH | {"param_grid": {"memory": ["x"]}},
            refused_parameter("estimator.param_grid.memory", value="['x']"),
        ),
        (
            SEARCH | {"param_grid": [{"a__memory": ["x"]}]},
            refused_parameter("estimator.param_grid.0.a__memory", value="['x']"),
        ),
        (
            LOGISTIC | {"CC": 3},
            refused_parameter("estimator.CC", rule_words="did you mean C"),
        ),
        (
            node_of(target="sklearn.model_selection.GridSearchCV"),
            refused_parameter("estimator.estimator", rule_words="value, GridSearchCV"),
        ),
        (
            node_of(
                target="sklearn.preprocessing.FunctionTransformer",
                func=node_of(target="sklearn.clone"),
            ),
            refused_parameter("_target_", value="sklearn.clone"),
        ),
        (
            node_of(
                target="sklearn.svm.SVC",
                kernel=node_of(target="sklearn.metrics.pairwise.rbf_kernel"),
            ),
            refused_parameter("_target_", value="sklearn.metrics.pairwise.rbf_kernel"),
        ),
        (
            PIPELINE | {"steps": [["fit", node_of(target=ACCOUNTANT_PATH)]]},
            refused_parameter("_target_", value="pate.accounting.RdpAccountant"),
        ),
        (
            node_of(target="sklearn.linear_model.LogisticRegresion"),
            refused_parameter("_target_", value="sklearn.linear_model.LogisticRegresion"),
        ),
    ],
)
def test_untrusted_values_of_an_estimator_are_refused(node: Any, refusal: Refusal) -> None:
    """Caches, unknown arguments and foreign classes in an estimator are refused with the name of the field."""
    with refusal:
        build(OmegaConf.create(node), slot="estimator")


def test_refusal_names_values_that_a_class_rejects() -> None:
    """A missing path, or an argument that the class rejects, is refused with the argument's name."""
    with pytest.raises(MissingMandatoryValue, match="root"):
        build(OmegaConf.create(node_of(target="pate.data.CelebA", root="???")), slot="data")
    with refused_parameter("penalties", value=3, rule_words="a list of numbers > 0"):
        build(
            OmegaConf.create(node_of(target="pate.student.LinearStudent", penalties=3)),
            slot="student",
        )


@pytest.fixture
def foreign_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installs a package with three entry points: an aggregator, another class, and a name that pate has, too."""
    points = "their_votes = their_parts:TheirVotes\nopened = their_parts:Opened\ngaussian_votes = their_parts:Opened\n"
    theirs = "from pate.aggregators import GaussianVotes\nclass TheirVotes(GaussianVotes): ...\n"
    for name, text in {
        "their_parts/__init__.py": "from their_parts.majority import TheirVotes\nclass Opened: ...\n",
        # named by no entry point
        "their_parts/majority.py": f"{theirs}class Beside(GaussianVotes): ...\n",
        "theirs-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n",
        "theirs-1.0.dist-info/entry_points.txt": f"[pate.aggregators]\n{points}",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    installed_parts.cache_clear()
    yield
    installed_parts.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "their_parts"]:
        del sys.modules[name]


def composed_by_a_command(arguments: list[str]) -> DictConfig:
    """Returns the configuration of pate-train with these arguments."""
    register_configs()
    with initialize_config_dir(str(CONFIG_FOLDER), version_base="1.3"):
        return compose("train", arguments)


@pytest.mark.slow
def test_a_part_of_an_installed_package_is_found_by_its_name(foreign_package: None) -> None:
    """An aggregator of an installed package is a member of the group, and its fields are settings.

    `allowed_targets` is not needed. The package is imported only if the member is chosen.
    """
    assert "their_votes" in names_in_config_group(
        group="aggregator"
    ) and "their_votes" in describe_members("aggregator")
    ours = composed_by_a_command(arguments=["aggregator=gaussian_votes"])
    assert ours.aggregator._target_ == "pate.aggregators.GaussianVotes"
    assert not any(name.startswith("their_parts") for name in sys.modules)
    config = composed_by_a_command(arguments=["aggregator=their_votes", "aggregator.noise_std=7"])
    aggregator: Any = build_aggregator(config.aggregator, adjacency="replace_one")
    assert (type(aggregator).__name__, type(aggregator).__module__, aggregator.noise_std) == (
        "TheirVotes",
        "their_parts.majority",
        7.0,
    )


@pytest.mark.slow
def test_class_of_an_entry_point_is_checked_like_a_target(foreign_package: None) -> None:
    """An entry point to a class that is no aggregator is refused as an aggregator.

    So are other classes of the package, and its aggregator is refused in other groups.
    """
    opened = composed_by_a_command(arguments=["aggregator=opened"]).aggregator
    beside = node_of(target="their_parts.majority.Beside")
    for node, group, refusal in (
        (
            opened,
            "aggregator",
            refused_parameter("_target_", value="their_parts.Opened"),
        ),
        (
            beside,
            "aggregator",
            refused_parameter("_target_", value="their_parts.majority.Beside"),
        ),
        (
            node_of(target="their_parts.TheirVotes"),
            "student",
            refused_parameter("_target_", value="their_parts.TheirVotes"),
        ),
        (
            node_of(target="pate.aggregators.Aggregator"),
            "aggregator",
            refused_parameter("_target_", value="pate.aggregators.Aggregator"),
        ),
    ):
        with refusal:
            build(OmegaConf.create(node), slot=group)

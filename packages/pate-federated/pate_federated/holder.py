"""The answers of a holder: its teachers' votes for a request, and a sum over its teachers for a question."""

import hashlib
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from pate.array_types import Float32Array, IntArray
from pate.data.dataset import require_dataset
from pate.errors import InvalidValue
from pate.files.arrays import ArrayForm, read_arrays, write_arrays
from pate.files.atomic import atomic_write
from pate.files.paths import make_folder
from pate.models import Teacher
from pate.progress import Monitor
from pate.run.ensemble import Ensemble
from pate.run.folder import RunFolder
from pate.threads import all_cores
from pate.validation import require
from pate.votes.label_shares import TeacherShares
from pate.votes.pool_answers import PoolAnswers
from pate.votes.public_pca import PublicPCA
from pate.votes.round_votes import RoundQuestion
from pate.votes.source import GroupVotes, VotesInRounds
from pate_federated.asked_data import AskedData, with_labels
from pate_federated.question import LENGTHS, MOMENTS, SHARES, Question, Request, SumAnswer
from pate_federated.vote_casting import HolderPlan, HolderShare, cast_vote_file, manifest_of


def plan_for_request(plan: HolderPlan, *, request: Request, folder: Path) -> HolderPlan:
    """Returns a copy of a holder's plan with the queries and the form of votes of a request, also in its settings.

    All else is unchanged.

    Args:
        plan: the holder's plan.
        request: the queries and the form of the votes.
        folder: the folder that the queries are written to.
    """
    settings = {
        **plan.settings,
        "num_queries": request.num_queries,
        "cast": request.cast,
        "vote_clip": request.vote_clip,
        "queries": request.digest,
    }
    asked_data = AskedData(
        data_reader=SimpleNamespace(load=plan.load_dataset),
        queries_path=write_queries_file(request=request, folder=folder),
    )
    return replace(
        plan,
        load_dataset=asked_data.load,
        settings=settings,
        num_queries=request.num_queries,
        cast=request.cast,
        vote_clip=request.vote_clip,
    )


def write_queries_file(request: Request, folder: Path) -> Path:
    """Writes the samples of a request to a file in a folder, and returns the path."""
    path = folder / "queries.npz"
    write_arrays(path, **request.samples())
    return path


def votes_path(request: Request, holder_folder: Path) -> Path:
    """Returns the path, in a holder's folder, of the vote file that answers a request."""
    return holder_folder / request.digest[:16] / "votes.npz"


def answer_request(
    plan: HolderPlan, request: Request, folder: Path, monitor: Monitor | None = None
) -> bytes:
    """Returns the bytes of the vote file that a holder sends for a request.

    The same request gives the same bytes, also after an interruption.

    Args:
        plan: the holder's plan: its name, records and teachers.
        request: the queries and the form of the votes.
        folder: the holder's folder, of mode 0700. Each set of queries has its own folder there, for teachers and votes.
        monitor: displays the progress; None for no display.

    Raises:
        InvalidValue: the records or teachers cannot answer the request, the plan cannot be carried out, or the queries
            were answered in another form of votes.
    """
    vote_path = votes_path(request, holder_folder=folder)
    folder_of_request = vote_path.parent
    make_folder(folder_of_request)
    cast_vote_file(
        plan_for_request(plan, request=request, folder=folder_of_request),
        output=vote_path,
        output_dir=folder_of_request / "teachers",
        monitor=monitor,
    )
    return vote_path.read_bytes()


_AGAIN = "remove it, and the same command makes it again"
# The rule for teachers that are asked in rounds.
_RULE = "teachers that answer in rounds, such as kernel, linear or mlp, on rows of numbers"


@all_cores()
def answer_question(
    plan: HolderPlan, question: Question, folder: Path | str, monitor: Monitor | None = None
) -> bytes:
    """Returns the bytes of a holder's answer to a question: the sum over its teachers, empty for an opening.

    The same question gives the same bytes, also after an interruption.

    Formal guarantee: a teacher adds a part no longer than `question.reach` to the sum, for any records. The holder
    itself clips shares and votes. To the numbers of teachers by length, a teacher adds at most 1.

    Args:
        plan: the holder's plan: its name, records and teachers.
        question: the question. The holder takes from it the samples and what to sum, and nothing else of the plan.
        folder: the folder of teachers and answers, of mode 0700. Each set of samples has its own folder there.
        monitor: displays the progress; None for no display.

    Raises:
        InvalidValue: the holder has not received the opening of this question, or its records or teachers cannot
            answer.
    """
    opening = opening_of(question, holder_folder=Path(folder))
    folder_of_opening = Path(folder) / question.asked[:16]
    question.require_part_of(opening)
    answer_path = folder_of_opening / f"{question.name}.npz"
    if not os.path.lexists(answer_path):
        answer_bytes = _sum_answer_bytes(
            plan=plan_for_request(plan, request=opening, folder=folder_of_opening),
            question=question,
            opening=opening,
            teacher_folder=folder_of_opening / "teachers",
            monitor=monitor or Monitor(),
        )
        _write_bytes(answer_path, content=answer_bytes)
    return answer_path.read_bytes()


def opening_of(question: Question, holder_folder: Path) -> Request:
    """Returns the request with the samples of a release in rounds, from the opening that this holder received.

    The opening is the first question of the release. If `question` is an opening, it is stored in the folder first,
    unless one about these samples is there.

    Raises `InvalidValue` if the holder has received no such opening.
    """
    path = holder_folder / question.asked[:16] / "opening.npz"
    if question.opening is not None and not os.path.lexists(path):
        make_folder(path.parent)
        _write_bytes(path, content=question.to_bytes())
    opening = Question.from_bytes(path.read_bytes()).opening if os.path.lexists(path) else None
    if opening is None or opening.digest != question.asked:
        raise InvalidValue("question", rule="one after an opening that this holder has answered")
    return opening


def _sum_answer_bytes(
    plan: HolderPlan, question: Question, opening: Request, teacher_folder: Path, monitor: Monitor
) -> bytes:
    """Trains the holder's teachers that are missing, and returns the bytes of the answer with the sum over them.

    Args:
        plan: the holder's plan for the samples of the opening.
        question: the question.
        opening: the request with the samples of the release.
        teacher_folder: the folder of partition and teachers.
        monitor: displays the progress.
    """
    run_folder = RunFolder(teacher_folder)
    with run_folder.lock_for(settings=plan.settings):
        own_dataset = require_dataset(plan.load_dataset())
        dataset = with_labels(own_dataset, label_names=opening.label_names)
        plan.teacher.check(dataset.input_shape)
        can_vote_in_rounds = (
            issubclass(plan.teacher.gives, VotesInRounds) and len(dataset.input_shape) == 1
        )
        require(can_vote_in_rounds, "teacher", type(plan.teacher).__name__, _RULE)
        rule = "null or false: rounds of several holders have linear features alone"
        require(
            getattr(plan.teacher, "nonlinear", None) is not True, "teacher.nonlinear", "true", rule
        )
        run_folder.claim(
            plan.settings,
            digests={"data": dataset.digest(), "private": dataset.private_digest()},
        )
        holder_share = HolderShare.of_plan(plan, dataset=dataset, folder=run_folder)
        # the opening trains the teachers, so that later rounds are answered soon
        ensemble = holder_share.train(
            opening.num_queries, engine=plan.engine, folder=run_folder, monitor=monitor
        )
        vote_head = replace(
            manifest_of(plan, ensemble), have_gaps=own_dataset.private.known is not None
        )
        if len(own_dataset.label_names) < len(opening.label_names):
            vote_head = replace(vote_head, known_labels=own_dataset.label_names)
        return SumAnswer(
            head=vote_head,
            question=question.digest,
            total=_sum_over_teachers(ensemble, question=question, folder=teacher_folder),
        ).to_bytes()


def _sum_over_teachers(ensemble: Ensemble, *, question: Question, folder: Path) -> IntArray:
    """Returns the sum over the holder's teachers that a question asks for, int64 of shape `question.shape`, in steps.

    To a question about lengths it is numbers of teachers, and to an opening it is empty.

    Args:
        ensemble: the holder's trained teachers.
        question: the question.
        folder: the folder for results that several questions share.
    """
    state = question.state
    is_trained = isinstance(ensemble.teacher_recipe, Teacher)
    can_answer = is_trained or not isinstance(ensemble.vote(), GroupVotes)
    require(can_answer, "teacher", type(ensemble.teacher_recipe).__name__, _RULE)
    if question.kind == MOMENTS:
        public_inputs = ensemble.queries.inputs
        ask_teachers = None
        if is_trained:
            ask_teachers = partial(
                _pool_answers,
                ensemble,
                public_pca=question.public_pca,
                public_inputs=public_inputs,
                folder=folder,
            )
        moments = ensemble.moment_votes(
            public_pca=question.public_pca,
            public_inputs=public_inputs,
            records_per_teacher=float(state["records_per_teacher"]),
            ask_teachers=ask_teachers,
        )
        clipping_mechanism = question.clipped_sum
        return moments.total(
            RoundQuestion(
                student_weights=state["weights"],
                label_scale=state["label_scale"],
                moment_clipping=clipping_mechanism,
            )
        )
    if question.kind in (LENGTHS, SHARES):
        label_shares = ensemble.label_shares()
        known_shares = None
        if question.have_gaps:
            known_shares = ensemble.known_shares()
            known_shares = np.ones_like(label_shares) if known_shares is None else known_shares
        teacher_shares = TeacherShares(label_shares, known_shares=known_shares)
        if question.kind == LENGTHS:
            return teacher_shares.lengths()
        clipping_mechanism = question.clipped_sum
        center_of_shares = state["center"]
        return teacher_shares.total(clipping_mechanism, center=center_of_shares)
    return np.zeros(question.shape, dtype=np.int64)


def _pool_answers(
    ensemble: Ensemble, *, public_pca: PublicPCA, public_inputs: Float32Array, folder: Path
) -> PoolAnswers:
    """Returns the answers of a holder's trained teachers on the public pool, computed once for all rounds.

    Votes need how far they differ from the answers on a teacher's own records (`PoolAnswers.pool_excess`).

    Args:
        ensemble: the holder's trained teachers.
        public_pca: the directions of the public pool.
        public_inputs: float32 `[num_asked, num_inputs]`, the rows of the pool.
        folder: the folder in which the answers are stored.
    """
    digest = hashlib.sha256(np.ascontiguousarray(public_pca.projection).tobytes()).hexdigest()
    answers_path = folder / f"beyond_{digest[:16]}.npz"
    if not os.path.lexists(answers_path):
        answers = ensemble.pool_answers(public_pca, public_inputs)
        write_arrays(answers_path, beyond=answers.pool_excess)
    pool_excess = read_arrays(
        answers_path, forms={"beyond": ArrayForm(dtype_kinds="biuf")}, remedy=_AGAIN
    )["beyond"]
    asked_features = public_pca.with_constant(public_inputs).astype(np.float32)
    return PoolAnswers(
        pool_excess=pool_excess,
        asked_features=asked_features,
        known_shares=ensemble.known_shares(),
    )


def _write_bytes(path: Path, *, content: bytes) -> None:
    with atomic_write(path) as file:
        file.write(content)

"""pate-audit: prices a release of somebody else's votes, both as the paper claims and with a sound proof."""

from functools import partial

from omegaconf import DictConfig, OmegaConf

from pate.accounting import Adjacency
from pate.auditing.release_parameters import ReleaseParameters
from pate.auditing.vote_audit import audit_votes
from pate.cli.app import command_of
from pate.config.build import part_maker
from pate.report.console import print_result
from pate.validation import InvalidValue, require_choice, require_probability
from pate.votes.imported import ImportedVotes


def audit(config: DictConfig) -> None:
    """Reads votes, prices releases that could be made of them, and compares the prices with published claims.

    The priced releases are those whose parameters are all given, and the usual one for such votes, or that of
    `aggregator=`.
    """
    require_choice("format", config.format, ("text", "json"))
    adjacency = Adjacency.parse(config.adjacency)
    build_part = part_maker(config)
    if OmegaConf.is_missing(config, "votes"):
        raise InvalidValue("votes", "???", rule="the path of an .npy, .npz or .csv file")
    require_probability("target_delta", config.target_delta)
    aggregator = None if config.aggregator is None else build_part("aggregator")
    imported_votes = ImportedVotes.read(
        config.votes, layout=config.layout, num_teachers=config.num_teachers
    )
    audited = audit_votes(
        imported_votes,
        target_delta=config.target_delta,
        parameters=ReleaseParameters(
            noise_std=config.noise_std,
            screening_std=config.screening_std,
            threshold_share=config.threshold_share,
            vote_clip=config.vote_clip,
            max_size=config.max_size,
        ),
        aggregator=aggregator,
        accountant=partial(build_part, "accountant"),
        given_only=True,
        data_dependent=config.data_dependent,
    )
    print_result(
        config.format,
        audited.to_json(adjacency),
        "cli/audit.txt",
        audited=audited,
        votes=imported_votes,
        adjacencies=list(Adjacency),
    )


main = command_of(audit, command="audit")


if __name__ == "__main__":
    main()

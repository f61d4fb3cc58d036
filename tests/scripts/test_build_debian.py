"""The builder of Debian's table reads the packages of a Packages file that have tags of content, each name once."""

from scripts.build_debian import packages

PACKAGES_FILE_TEXT = """Package: liba
Source: a (1.0)
Description: a library of letters
Tag: devel::{library,lang:c}, role::shared-lib,
 implemented-in::c

Package: liba
Description: the same once more
Tag: devel::library

Package: untagged
Description: nobody tagged it
Tag: role::program

Package: b
Description: a program
Tag: interface::x11
"""


def test_packages_are_read_with_their_tags_once() -> None:
    """Of a Packages file, repeated entries and packages whose only tag is a role are left out.

    The others have their source, description and tags without roles, with abbreviated tags written out.
    """
    first, second = packages(PACKAGES_FILE_TEXT)
    assert (first.name, first.source, first.description) == ("liba", "a", "a library of letters")
    assert first.tags == {"devel::library", "devel::lang:c", "implemented-in::c"}
    assert (second.source, second.tags) == ("b", {"interface::x11"})

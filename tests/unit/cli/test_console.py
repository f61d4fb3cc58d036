import io
import pickle
import re

import pytest
from rich.console import Console

from pate.cli.run import ConsoleMonitor, watched_load
from pate.data import SynthFaces, Yeast
from pate.validation import InvalidValue


def test_a_stage_inside_another_is_shown_with_it() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    monitor = ConsoleMonitor(console)
    with monitor.stage("outer"), monitor.stage("inner", 3) as advance:
        advance(3, "done")
    with monitor.stage("next", 1) as advance:
        advance(1)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    places = [re.search(line, text).start() for line in (r"inner: \d+\.\d s \(done\)", r"outer: \d", r"next: \d")]
    assert places == sorted(places)


def test_data_sets_with_stages_are_watched_and_others_read_as_they_are() -> None:
    console = Console(file=io.StringIO(), width=100)
    faces = SynthFaces(num_private=2, num_public=1, num_test=1, image_size=4)
    assert watched_load(faces, ConsoleMonitor(console))().digest() == faces.load().digest()
    assert "drawing faces: " in console.file.getvalue()
    load = pickle.loads(pickle.dumps(watched_load(faces, ConsoleMonitor(console))))  # as a comparison's workers get it
    assert load().digest() == faces.load().digest()
    assert console.file.getvalue().count("drawing faces: ") == 1
    with pytest.raises(InvalidValue, match=r"^data\.path=nowhere: expected a readable CSV file$"):
        watched_load(Yeast(path="nowhere"), ConsoleMonitor(console))()
    with pytest.raises(InvalidValue, match=r"^data=Console: expected a class whose load\(\) gives a "):
        watched_load(console, ConsoleMonitor(console))

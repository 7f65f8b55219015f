import xml.etree.ElementTree as ET

import pytest

pytest.importorskip("matplotlib")

from experiments.figures import draw_panels, save_figures
from experiments.report.summary import summarise


def test_files_for_every_axis_there_is(records, tmp_path):
    few = [p for p in records if p["panel"] == "batch 256" and p["method"] != "SGD"]
    rows = summarise(few, costs=("proxy_gradients",))
    paths = save_figures(tmp_path, rows)
    names = [f"figure_{x}.{kind}" for x in ("target_gradients", "proxy_gradients")
             for kind in ("png", "svg")]  # fmt: skip
    assert [path.name for path in paths] == names
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert ET.parse(paths[1]).getroot().tag.endswith("svg")
    before = paths[1].read_bytes()
    free = [{**row, "proxy_gradients": 0} for row in rows]
    assert len(save_figures(tmp_path, free)) == 2
    assert paths[1].read_bytes() == before
    with pytest.raises(ValueError, match="rows"):
        draw_panels([])

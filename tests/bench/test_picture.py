# SPDX-License-Identifier: GPL-2.0
"""The picture is well-formed, its bars are in proportion, and missing measurements have no bar."""

import unittest
import xml.etree.ElementTree as xml

from bench import figures, picture, stats

RECT = "{http://www.w3.org/2000/svg}rect"


def drawn(values):
    """{title: width} of the bars of 64 KiB writes on one device."""
    job = {"run": "write_bw_64kib", "path": figures.DEVICE, "round": 1}
    results = [{"job": job | {"who": who}, "figures": {"mb": value}} for who, value in values.items()]
    tree = xml.fromstring(picture.svg(stats.Series(results, 1), "here & <now>"))
    bars = [(rect.find("{*}title"), float(rect.get("width"))) for rect in tree.iter(RECT)]
    return {title.text.partition(":")[0]: width for title, width in bars if title is not None}


class Picture(unittest.TestCase):
    def test_proportion(self):
        bars = drawn({"ferroce": 1000.0, "rxe": 250.0})
        self.assertAlmostEqual(bars["ferroce"], 4 * bars["rdma_rxe"], delta=1)

    def test_no_bar_without_a_measurement(self):
        self.assertEqual(set(drawn({"ferroce": 1.0})), {"ferroce"})
        self.assertEqual(drawn({}), {})

    def test_logarithmic(self):
        at = [picture.scaled(value, 1, 100, True) for value in (1, 10, 100)]
        self.assertAlmostEqual(at[2] - at[1], at[1] - at[0])
        self.assertGreater(at[0], 0)
        self.assertEqual(at[2], 1)


if __name__ == "__main__":
    unittest.main()

# SPDX-License-Identifier: GPL-2.0
"""Output of programs turns into the right numbers, and missing output into an error."""

import json
import unittest

from bench import parse

BANDWIDTH = """\
 local address: LID 0000 QPN 0x0011 PSN 0x1fb18e RKey 0x0003b5 VAddr 0x000000405ec000
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
 65536      2000             1187.82            1059.18\t\t     0.016947
---------------------------------------------------------------------------------------
"""
LATENCY = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
    "99% percentile[usec]   99.9% percentile[usec] \n"
    " 8       10000          9.28           32753.98      43.13    \t       469.15      \t1487.20"
    "\t\t6008.45 \t\t22340.37\n"
)


class Perftest(unittest.TestCase):
    def test_bandwidth_in_megabytes(self):
        found = parse.perftest_bandwidth(BANDWIDTH)
        self.assertAlmostEqual(found["mb"], 1059.18 * 1.048576)
        self.assertAlmostEqual(found["rate"], 16947)

    def test_latency(self):
        self.assertEqual(
            parse.perftest_latency(LATENCY), {"median": 43.13, "mean": 469.15, "p99": 6008.45, "p999": 22340.37}
        )

    def test_a_missing_table_is_an_error(self):
        for text in ("", "Couldn't connect\n", LATENCY.splitlines()[0]):
            with self.assertRaises(parse.Unreadable):
                parse.perftest_latency(text)

    def test_another_table_is_an_error(self):
        with self.assertRaises(parse.Unreadable):
            parse.perftest_bandwidth(LATENCY)
        with self.assertRaises(parse.Unreadable):
            parse.perftest_latency(BANDWIDTH)

    def test_zero_and_infinity_are_no_figures(self):
        with self.assertRaises(parse.NotPositive):
            parse.perftest_bandwidth(BANDWIDTH.replace("1059.18", "0.00"))
        with self.assertRaises(parse.NotPositive):
            parse.perftest_latency(LATENCY.replace("43.13", "inf"))


class Tcp(unittest.TestCase):
    def test_iperf3_counts_what_arrived(self):
        sent, received = {"bits_per_second": 9e9, "bytes": 9}, {"bits_per_second": 8e9, "bytes": 7}
        text = json.dumps({"end": {"sum_sent": sent, "sum_received": received}})
        self.assertEqual(parse.iperf3(text), {"mb": 1000.0, "bytes": 7.0})

    def test_iperf3_error(self):
        for text in ("", "[]", json.dumps({"end": {}, "error": "unable to connect"})):
            with self.assertRaises(parse.Unreadable):
                parse.iperf3(text)

    def test_qperf_units(self):
        for text, microseconds in (("96.1 us", 96.1), ("1.13 ms", 1130), ("870 ns", 0.87), ("1.5 sec", 1.5e6)):
            found = parse.qperf_latency(f"tcp_lat:\n    latency  =  {text}\n")
            self.assertAlmostEqual(found["mean"], microseconds)

    def test_qperf_unknown_unit(self):
        with self.assertRaises(parse.Unreadable):
            parse.qperf_latency("latency = 3 fortnights")


class ConnectionManager(unittest.TestCase):
    TEXT = """\
qp_conn               100
threads                 1
step             avg/iter  total(us)    us/conn    sum(us)    max(us)    min(us)
full connect        16525    2000000          0          0    1612845     583354
create id             373      37352        218      21806       3222         11
cm_conn               100
full connect         9529     952932          0          0     904805     363774
"""

    def test_connections_with_queue_pairs(self):
        self.assertEqual(parse.cmtime(self.TEXT), {"rate": 50.0})

    def test_no_connections(self):
        for text in ("", "Client warmup\n", self.TEXT.replace("2000000", "0")):
            with self.assertRaises(parse.Unreadable):
                parse.cmtime(text)


class Own(unittest.TestCase):
    def test_last_line(self):
        self.assertEqual(parse.figures_json('noise\n{"a": 1, "b": 2.5}\n'), {"a": 1.0, "b": 2.5})

    def test_no_object(self):
        for text in ("", "5", '{"a": "x"}', '{"a": null}', "Traceback"):
            with self.assertRaises(parse.Unreadable):
                parse.figures_json(text)


if __name__ == "__main__":
    unittest.main()

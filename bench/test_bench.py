"""Tests of the bench's table and report: figures in, verdicts and page out. `python3 -m unittest discover bench`."""

import unittest

import bench
import page
import targets


def figure(metric, value, **context):
    return {"metric": metric, "value": value, "unit": "", "context": context}


STEP = {"batch": 64, "burst": 1, "packet_bytes": 120, "participants": 20, "receivers": 1}


def row(lines, words):
    return next(row for row in targets.rows(lines) if words in row.name)


class Targets(unittest.TestCase):
    def test_the_worst_row_decides(self):
        lines = [figure("fwd_ratio", 1.05, **STEP), figure("fwd_ratio", 1.11, **{**STEP, "participants": 2000})]
        self.assertIs(row(lines, "limit L1, batch").met, False)
        self.assertIs(row(lines[:1], "limit L1, batch").met, True)

    def test_rows_of_other_batches_and_bursts_do_not_count(self):
        lines = [figure("fwd_ratio", 1.05, **STEP), figure("fwd_ratio", 3, **{**STEP, "batch": 8}), figure("fwd_ratio", 3, **{**STEP, "burst": 4})]
        self.assertIs(row(lines, "limit L1, batch").met, True)

    def test_rows_with_three_receivers_are_a_target_of_their_own(self):
        lines = [figure("fwd_ratio", 1.05, **STEP), figure("fwd_ratio", 1.2, **{**STEP, "receivers": 3})]
        self.assertIs(row(lines, "limit L1, batch").met, True)
        self.assertIs(row(lines, "three receivers").met, False)

    def test_what_is_missed_says_why(self):
        lines = [figure("cpu_ratio", 1.3, profile="av", packets_per_second=20000)]
        self.assertIn("feedback", row(lines, "20k packets/s").why)
        for of, sending, history in (("relay", 2000, 400), ("limit", 1500, 395)):
            lines += [figure("profile", value, view="samples", of=of, part=part) for part, value in (("kernel: sending", sending), ("history", history))]
        self.assertIn("kernel: sending 500 ns", row(lines, "20k packets/s").why)
        self.assertNotIn("history", row(lines, "20k packets/s").why)
        self.assertIn("Missed because of:", targets.table(targets.rows(lines)))
        self.assertIn("kernel: sending  2,000  1,500", targets.profile(lines))
        self.assertIn("| kernel: sending | 2,000 | 1,500 |", targets.profile_markdown(lines))
        self.assertEqual(row([figure("cpu_ratio", 1.2, profile="av", packets_per_second=20000)], "20k packets/s").why, "")

    def test_what_was_not_measured_is_neither_met_nor_missed(self):
        for found in targets.rows([]):
            self.assertIsNone(found.met, found.name)
            self.assertEqual(found.measured, "not measured")

    def test_a_group_may_cost_neither_more_nor_less_than_predicted(self):
        for value, met in ((0.84, False), (0.86, True), (1.14, True), (1.16, False)):
            self.assertIs(row([figure("group_cpu_to_predicted", value)], "rooms of eight").met, met)

    def test_bytes_are_shown_as_kilobytes(self):
        found = row([figure("rss_prepared", 8 * 1024, participants=10_000)], "prepared participant in")
        self.assertEqual((found.measured, found.met), ("8 KB", True))
        self.assertIs(row([figure("rss_prepared", 8 * 1024 + 100)], "prepared participant in").met, False)

    def test_the_gate_is_judged_where_processors_are_free(self):
        lines = [figure("ring_gate_ms_p99", 3, calls_per_second=100), figure("ring_gate_ms_p99", 0.4, calls_per_second=20)]
        self.assertIs(row(lines, "gate open").met, True)

    def test_the_table_has_a_line_for_each_target(self):
        lines = [figure("cpu_ratio", 1.3, profile="audio", packets_per_second=20000)]
        shown = targets.table(targets.rows(lines))
        self.assertIn("MISSED", next(line for line in shown.splitlines() if "20k packets/s" in line))
        self.assertEqual(len(shown.split("\n\n")[0].splitlines()), 1 + len(targets.rows(lines)))


class Page(unittest.TestCase):
    machine = {"date": "2026-01-01", "commit": "abc", "processor": "a <chip>", "processors": 2, "kernel": "6"}

    def test_it_fetches_nothing_and_escapes_what_it_shows(self):
        lines = [figure("fwd_ratio", 1.05, **STEP), figure("fwd_ns_l1", 4000, **STEP), figure("fwd_ns_relay", 4200, **STEP)]
        made = page.page(targets.rows(lines), lines, [], self.machine)
        self.assertNotIn("<chip>", made)
        self.assertNotRegex(made, r"(src|href)=|url\(|@import|https?://")
        self.assertIn("1 of 1 targets", made)

    def test_a_bar_is_as_high_as_its_value(self):
        made = page.bars([("a", [("relay", 100)]), ("b", [("relay", 50)])], "ns")
        heights = [float(part.split('height="')[1].split('"')[0]) for part in made.split("<rect")[2:]]
        self.assertAlmostEqual(heights[0], 2 * heights[1], delta=0.2)

    def test_without_figures_there_is_no_plot(self):
        self.assertEqual(page.bars([("a", [("relay", None)])], "ns"), "")
        self.assertNotIn("<svg", page.page(targets.rows([]), [], [], self.machine))

    def test_a_run_that_lacks_a_figure_leaves_a_gap_in_the_line(self):
        runs = [{"date": "2026-01-01", "commit": "a", "figures": {"x": 1}}, {"date": "2026-01-02", "commit": "b", "figures": {}}]
        self.assertEqual(page.history_plot(runs, {"x": "x", "y": "y"}, 1.25).count("<circle"), 1)


class Summary(unittest.TestCase):
    def test_what_is_kept_of_a_run_has_names_of_its_own(self):
        lines = [figure("cpu_ratio", 1.2, profile="av", packets_per_second=20000), figure("fwd_ratio", 1.04, **STEP)]
        self.assertEqual(bench.summary(lines), {"cpu_ratio av 20000": 1.2, "fwd_ratio worst": 1.04})


if __name__ == "__main__":
    unittest.main()

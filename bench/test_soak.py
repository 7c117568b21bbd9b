"""Tests of the soak's verdicts: samples in, rows out. `python3 -m unittest discover bench`."""

import unittest

import soak


def process(number, grows=0):
    return {"bytes": (40 << 20) + grows * number, "descriptors": 20, "threads": 5, "cpu": number * 0.1}


def samples(count=240, every=5, **changes):
    """Of 20 minutes; `changes`: name to a function of the sample's number."""
    made = []
    for number in range(count):
        one = {"t": every * (number + 1), "worker": process(number), "control": process(number), "counters": {"drops:rtp-replayed": number},
               "events": 10 * number, "gaps": 0, "calls": number, "failed": 0, "clients": 40, "joined": 30, "steadyGapMs": 21, "outcomeMs": 3.0}
        for name, change in changes.items():
            one[name] = change(number)
        made.append(one)
    return made


RESULT = {"calls": 100, "rings": 50, "failed": 0, "faults": [], "steadyGapMs": 60}


def missed(samples, result=None):
    return [row.name for row in soak.judge(samples, {**RESULT, **(result or {})}) if not row.met]


class Verdicts(unittest.TestCase):
    def test_what_stays_as_it_is_holds(self):
        self.assertEqual(missed(samples()), [])

    def test_a_worker_that_grows_by_40_kib_a_sample_is_a_leak(self):
        names = missed(samples(worker=lambda number: process(number, 40 << 10)))
        self.assertEqual(names, ["resident memory of the worker, rise of the fitted line"])

    def test_steps_while_it_warms_up_are_none(self):
        self.assertEqual(missed(samples(worker=lambda number: process(min(number, 45), 200 << 10))), [])

    def test_control_may_keep_what_an_ended_call_takes_and_no_more(self):
        self.assertEqual(missed(samples(control=lambda number: process(number, 20_000))), [])
        self.assertEqual(len(missed(samples(control=lambda number: process(number, 40_000)))), 1)

    def test_over_hours_control_is_held_to_a_flat_line(self):
        grows = samples(count=3_000, every=10, control=lambda number: process(number, 20_000))
        self.assertEqual(missed(grows), ["resident memory of the control, rise of the fitted line"])
        self.assertEqual(missed(samples(count=3_000, every=10)), [])

    def test_a_thread_more_is_one_too_many_and_descriptors_may_come_and_go(self):
        more = lambda number: {**process(number), "threads": 5 + (number == 200)}
        self.assertEqual(missed(samples(worker=more)), ["threads of the worker"])
        self.assertEqual(missed(samples(control=lambda number: {**process(number), "descriptors": 20 + number % 3})), [])
        self.assertEqual(missed(samples(control=lambda number: {**process(number), "descriptors": 20 + number})), ["descriptors of the control"])

    def test_a_reason_that_must_not_come_is_named(self):
        rows = soak.judge(samples(counters=lambda number: {"drops:rtp-authentication": 3, "send_errors:refused": 1}), RESULT)
        row = next(row for row in rows if not row.met)
        self.assertIn("rtp-authentication 3", row.measured)
        self.assertIn("refused 1", row.measured)

    def test_gaps_failures_and_a_pause_of_the_steady_call_fail(self):
        self.assertEqual(len(missed(samples(gaps=lambda number: 1), {"failed": 2, "steadyGapMs": 1_200})), 3)

    def test_a_run_without_an_end_fails(self):
        self.assertFalse(soak.judge(samples(), None)[0].met)

    def test_the_report_draws_every_plot_and_escapes_faults(self):
        made = samples()
        page = soak.report(soak.judge(made, RESULT), made, {**RESULT, "faults": ["<b>"]}, {"date": "d", "commit": "c", "processor": "p", "processors": 2, "kernel": "k"})
        self.assertEqual(page.count("<svg"), 8)
        self.assertIn("&lt;b&gt;", page)


if __name__ == "__main__":
    unittest.main()

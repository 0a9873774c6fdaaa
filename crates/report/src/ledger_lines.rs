//! Lists the parts of the bytes of a direction, for tables and charts.

use super::record::{ByDirection, Flow};

/// A part of the bytes of a direction.
pub(crate) struct LedgerLine {
    /// Its name in a chart.
    pub name: &'static str,
    /// Its name in a table.
    pub line: &'static str,
    /// Its colour in a chart.
    pub color: usize,
    pub of: fn(&Flow) -> u64,
}

const fn line(
    name: &'static str,
    line: &'static str,
    color: usize,
    of: fn(&Flow) -> u64,
) -> LedgerLine {
    LedgerLine {
        name,
        line,
        color,
        of,
    }
}

/// The bytes by what became of them, those that were of use first.
pub(crate) const FATES: [LedgerLine; 6] = [
    line("useful", "delivered and useful", 2, |flow| flow.useful),
    line("late", "delivered late", 4, |flow| flow.late),
    line("stale", "delivered stale", 7, |flow| flow.stale),
    line("lost", "lost (dropouts, departures, faults)", 1, |flow| {
        flow.lost
    }),
    line("cancelled", "cancelled", 3, |flow| flow.cancelled),
    line("in flight at the end", "in flight at the end", 6, |flow| {
        flow.in_flight
    }),
];

/// The sent bytes by what they were for.
const CONTENTS: [LedgerLine; 4] = [
    line("headers", "of the sent bytes: headers", 3, |flow| {
        flow.header
    }),
    line("indices", "of the sent bytes: indices", 5, |flow| {
        flow.index
    }),
    line("values", "of the sent bytes: values", 0, |flow| flow.values),
    line(
        "modelled overheads",
        "of the sent bytes: modelled overheads, which are in no frame",
        1,
        |flow| flow.modelled,
    ),
];

/// Returns the sent bytes by what they were for. Modelled overheads are left out where there are
/// none.
pub(crate) fn contents(bytes: &ByDirection<Flow>) -> &'static [LedgerLine] {
    match bytes.up.modelled + bytes.down.modelled {
        0 => &CONTENTS[..3],
        _ => &CONTENTS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, bytes that were sent stand in no line of a report, or in two.
    #[test]
    fn every_byte_has_a_line_by_fate_and_one_by_content() {
        let flow = Flow {
            sent: 100,
            delivered: 70,
            lost: 20,
            cancelled: 7,
            in_flight: 3,
            useful: 60,
            late: 9,
            stale: 1,
            header: 5,
            index: 15,
            values: 73,
            modelled: 7,
            ..Flow::default()
        };
        let sum = |lines: &[LedgerLine]| lines.iter().map(|line| (line.of)(&flow)).sum::<u64>();
        let bytes = ByDirection {
            up: flow,
            down: Flow::default(),
        };
        assert_eq!([sum(&FATES), sum(contents(&bytes))], [100, 100]);
        assert_eq!(contents(&ByDirection::default()).len(), 3);
    }
}

//! Lists what the tables of bytes show of a direction, for every form of a report.

use super::record::{ByDirection, Flow};

/// A line of a table of bytes: its name, and the bytes that it shows of a direction.
pub(crate) type LedgerLine = (&'static str, fn(&Flow) -> u64);

/// Returns the bytes by what became of them, those that were of use first.
pub(crate) fn fates() -> [LedgerLine; 6] {
    [
        ("delivered and useful", |flow| flow.useful),
        ("delivered late", |flow| flow.late),
        ("delivered stale", |flow| flow.stale),
        ("lost (dropouts, departures, faults)", |flow| flow.lost),
        ("cancelled", |flow| flow.cancelled),
        ("in flight at the end", |flow| flow.in_flight),
    ]
}

/// Returns the sent bytes by what they were for. Modelled overheads are left out where there are
/// none.
pub(crate) fn contents(bytes: &ByDirection<Flow>) -> Vec<LedgerLine> {
    let mut lines: Vec<LedgerLine> = vec![
        ("of the sent bytes: headers", |flow| flow.header),
        ("of the sent bytes: indices", |flow| flow.index),
        ("of the sent bytes: values", |flow| flow.values),
    ];
    if bytes.up.modelled + bytes.down.modelled > 0 {
        lines.push((
            "of the sent bytes: modelled overheads, which are in no frame",
            |flow| flow.modelled,
        ));
    }
    lines
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
        let sum = |lines: &[LedgerLine]| lines.iter().map(|(_, of)| of(&flow)).sum::<u64>();
        let bytes = ByDirection {
            up: flow,
            down: Flow::default(),
        };
        assert_eq!([sum(&fates()), sum(&contents(&bytes))], [100, 100]);
        assert_eq!(contents(&ByDirection::default()).len(), 3);
    }
}

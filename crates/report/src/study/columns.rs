//! Lists what the tables of a study have columns for, by what its runs have.

use super::measures::{Measure, SpentOn};
use super::quantities::{self, COSTS, COSTS_OF_SELECTED, OVERHEADS, PRIVACY, Quantity, UNUSED};
use super::reach::PERCENTS;
use super::results::{ArmResults, Results};
use crate::report::figures;

impl Results {
    /// Returns everything that is measured: all figures of accuracy that a run has, the validation
    /// part's first one, the costs, what was found out and claimed about privacy, how sparse the
    /// shared table is where that was published, and what was spent until goals were reached.
    pub(crate) fn measures(&self) -> Vec<Measure> {
        let reports = || self.arms.iter().flat_map(ArmResults::reports);
        let names = reports().flat_map(|report| report.run.accuracy.test.keys());
        let figures = figures::ordered(names)
            .into_iter()
            .map(|name| Quantity::Figure(name.to_owned()));
        let costs = COSTS
            .into_iter()
            .chain(UNUSED)
            .chain(OVERHEADS)
            .chain(COSTS_OF_SELECTED);
        let quantities = figures
            .chain(self.validation())
            .chain(costs)
            .chain(self.privacy())
            .chain(self.sparsity());
        let mut measures: Vec<Measure> = quantities.map(Measure::Whole).collect();
        for goal in self.goals() {
            for percent in PERCENTS {
                let spent = [SpentOn::Up, SpentOn::Both, SpentOn::Time];
                measures.extend(spent.map(|spent| Measure::Until {
                    goal,
                    percent,
                    spent,
                }));
            }
        }
        measures
    }

    /// Returns the first figure on the validation part; `None` if no run has one.
    pub(crate) fn validation(&self) -> Option<Quantity> {
        let quantity = Quantity::Validation(self.figures.first()?.clone());
        self.has(&quantity, |_| true).then_some(quantity)
    }

    /// Returns the quantities of the table of costs. Bytes that were of no use and modelled bytes
    /// are among them if some run has any.
    pub(crate) fn costs(&self) -> Vec<Quantity> {
        let if_any = |columns: &[Quantity]| match columns
            .iter()
            .any(|column| self.has(column, |bytes| bytes > 0.0))
        {
            true => columns.to_vec(),
            false => Vec::new(),
        };
        let [bytes, others] = [&COSTS[..2], &COSTS[2..]].map(<[Quantity]>::to_vec);
        [bytes, if_any(&UNUSED), if_any(&OVERHEADS), others].concat()
    }

    /// Returns the quantities of privacy that some run has.
    pub(crate) fn privacy(&self) -> Vec<Quantity> {
        PRIVACY
            .into_iter()
            .filter(|quantity| self.has(quantity, |_| true))
            .collect()
    }

    /// Returns the quantities of how sparse the shared table is, if the study has a published value
    /// of one of them. Nearly every method shares a table, and few readers want to know.
    pub(crate) fn sparsity(&self) -> Vec<Quantity> {
        let is_published = self
            .references
            .iter()
            .any(|reference| quantities::is_sparsity(&reference.figure));
        quantities::sparsity().filter(|_| is_published).collect()
    }

    /// Returns whether some run has a value of a quantity for which `is_wanted` holds.
    fn has(&self, quantity: &Quantity, is_wanted: impl Fn(f64) -> bool) -> bool {
        let mut reports = self.arms.iter().flat_map(ArmResults::reports);
        reports.any(|report| quantity.of(report).is_some_and(&is_wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::results::RunState;
    use crate::study::sample;

    /// If this fails, a table does not tell measured bytes from modelled ones or used ones from
    /// others, or has columns of nothing.
    #[test]
    fn costs_have_columns_for_what_some_run_has() {
        let mut results = sample::results();
        for run in results.arms.iter_mut().flat_map(|arm| &mut arm.runs) {
            let RunState::Done(report) = &mut run.state else {
                continue;
            };
            for flow in [&mut report.run.bytes.up, &mut report.run.bytes.down] {
                (
                    flow.lost,
                    flow.cancelled,
                    flow.in_flight,
                    flow.late,
                    flow.stale,
                ) = (0, 0, 0, 0, 0);
            }
            report.run.work.unused_download_bytes = 0;
        }
        assert_eq!(results.costs(), COSTS);
        if let RunState::Done(report) = &mut results.arms[1].runs[0].state {
            report.run.bytes.up.modelled = 5;
            report.run.bytes.down.stale = 7;
            report.run.work.unused_download_bytes = 4;
        }
        let added = [
            Quantity::UpUnused,
            Quantity::DownUnused,
            Quantity::UpModelled,
            Quantity::DownModelled,
        ];
        assert_eq!(
            (results.costs().len(), &results.costs()[2..6]),
            (11, &added[..])
        );
        let down = results.values(1, &Measure::Whole(Quantity::DownUnused));
        assert_eq!(
            down.iter().map(|(_, bytes)| *bytes).sum::<f64>(),
            11.0,
            "a download that led to nothing arrived"
        );
    }
}

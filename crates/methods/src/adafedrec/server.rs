//! Sends each class tables of its own width, and averages what all classes send.

use std::sync::{Arc, OnceLock};

use ndarray::Array2;

use super::autoencoder::{Autoencoder, doubles, singles};
use super::{AdaFedRec, CODED, SHARED};
use crate::prelude::*;
use crate::server::{Download, PersonalDownloads, StepWeights, WeightTotals, downcast};
use fedrecsim_model::blocks::BlockValues;

/// Holds the model, whose autoencoders are those of the round before until it is known what this
/// round downloads.
pub(super) struct CodingServer {
    method: AdaFedRec,
    model: Model,
    /// What the present round is made of. It follows from the model.
    round: OnceLock<Arc<Coded>>,
}

/// What a round is made of.
#[derive(Clone, Debug)]
struct Coded {
    /// The model, once its autoencoders have learned.
    model: Model,
    classes: Classes,
    sides: Vec<Side>,
    multiply_adds: u64,
}

/// What a class of users exchanges.
#[derive(Clone, Debug)]
struct Side {
    class: Class,
    /// Those of E and of W1; none for large devices.
    coders: Option<[Autoencoder; CODED]>,
    download: Model,
}

impl Side {
    fn new(class: Class, model: &Model, coders: Option<[Autoencoder; CODED]>) -> Self {
        let mut layouts = model.layout().blocks()[..SHARED].to_vec();
        let mut values = model.blocks()[..SHARED].to_vec();
        for (at, coder) in coders.iter().flatten().enumerate() {
            let table = singles(&coder.encoded(&doubles(model.table(at))));
            layouts[at].shape = table.shape();
            values[at] = BlockValues::Table(table.into());
        }
        // The shapes have just been taken from the tables.
        let download = Model::new(Layout::new(layouts), values)
            .unwrap_or_else(|fault| unreachable!("{fault}"));
        Self {
            class,
            coders,
            download,
        }
    }

    /// Returns a server that adds up what the class sends.
    fn averager(&self) -> Averager {
        Averager::with_rules(self.download.clone(), self.download.layout().clone(), &[])
    }

    /// Returns the sum of what the class has sent for a block, whose weights add up to `weight`, as
    /// wide as the server has it.
    fn widened(&self, at: usize, sum: &Table, weight: f64) -> Array2<f64> {
        let coder = self.coders.as_ref().and_then(|coders| coders.get(at));
        match coder {
            Some(coder) => coder.decoded(&doubles(sum), weight),
            None => doubles(sum),
        }
    }
}

impl Coded {
    /// Has the autoencoders of `model` learn, and encodes what each class downloads.
    fn new(method: &AdaFedRec, model: &Model) -> Self {
        let p = &method.parameters;
        let (mut trained, mut multiply_adds) = (model.clone(), 0);
        let mut places = SHARED..;
        let mut learned = |at: usize| {
            let own = [(); 2].map(|()| places.next().unwrap_or_default());
            let mut coder = Autoencoder::of(own.map(|place| &**model.table(place)));
            let rows = doubles(model.table(at));
            coder.learn(&rows, p.autoencoder_steps, p.autoencoder_rate);
            multiply_adds += coder.multiply_adds(rows.nrows(), p.autoencoder_steps);
            for (place, table) in own.into_iter().zip(coder.tables()) {
                *trained.table_mut(place) = table;
            }
            coder
        };
        let sides = p.devices.classes().iter().map(|class| {
            let coders = (*class != Class(0)).then(|| [0, 1].map(&mut learned));
            Side::new(*class, model, coders)
        });
        Self {
            sides: sides.collect(),
            model: trained,
            classes: method.classes.clone(),
            multiply_adds,
        }
    }
}

impl PersonalDownloads for Coded {
    fn download(&self, user: UserId) -> Result<Model> {
        let class = self.classes.of(user);
        let side = self.sides.iter().find(|side| side.class == class);
        let unknown = || Error::Update(format!("{user} is of a class without devices"));
        side.map(|side| side.download.clone()).ok_or_else(unknown)
    }
}

impl CodingServer {
    pub(super) fn new(method: AdaFedRec, model: Model) -> Self {
        Self {
            method,
            model,
            round: OnceLock::new(),
        }
    }

    fn round(&self) -> &Arc<Coded> {
        let coded = || Arc::new(Coded::new(&self.method, &self.model));
        self.round.get_or_init(coded)
    }
}

impl Server for CodingServer {
    fn model(&self) -> &Model {
        &self.model
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.round = OnceLock::new();
        self.model.replace(model)
    }

    fn download(&self) -> Download {
        Download::PerUser(self.round().clone())
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        let round = self.round();
        let of_class = |side: &Side| ClassSums {
            class: side.class,
            sums: side.averager().accumulator(),
            weight: 0.0,
            senders: 0,
        };
        Box::new(Sums {
            classes: round.classes.clone(),
            of_classes: round.sides.iter().map(of_class).collect(),
            totals: WeightTotals::default(),
        })
    }

    /// Decodes the sum over each class, which is the sum of what the decoders make of each upload.
    /// An upload that answers an earlier download is decoded by the present decoders too.
    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let sums = *downcast::<Sums>(sums)?;
        let round = Arc::clone(self.round());
        let StepWeights { kept, divisor } = (step.normalise)(&sums.totals);
        let mut report = StepReport {
            multiply_adds: round.multiply_adds,
            ..StepReport::default()
        };
        let all = |_: &WeightTotals| StepWeights { kept: 0.0, divisor };
        let mut context = *step;
        context.normalise = &all;
        let kept_of = |at: usize| doubles(round.model.table(at)) * (kept / divisor);
        let mut blocks: Vec<Array2<f64>> = Vec::new();
        for (side, of_class) in round.sides.iter().zip(sums.of_classes) {
            if of_class.senders == 0 {
                continue;
            }
            if blocks.is_empty() {
                blocks.extend((0..SHARED).map(kept_of));
            }
            let mut averager = side.averager();
            let sent = averager.step(of_class.sums, &context)?.uploads;
            report.uploads.add_times(&sent, 1);
            let weight = of_class.weight / divisor;
            for (at, block) in blocks.iter_mut().enumerate() {
                *block += &side.widened(at, averager.model().table(at), weight);
            }
        }
        self.model = round.model.clone();
        self.round = OnceLock::new();
        for (at, block) in blocks.iter().enumerate() {
            *self.model.table_mut(at) = singles(block);
        }
        for (at, (_, table)) in self.model.tables().enumerate() {
            let name = match at {
                0 => "E",
                1..SHARED => "the network",
                _ => "the autoencoders",
            };
            step.check_magnitude(name, largest_magnitude(table.as_slice()))?;
        }
        Ok(report)
    }
}

/// Holds the sums of a step, class by class.
struct Sums {
    classes: Classes,
    of_classes: Vec<ClassSums>,
    totals: WeightTotals,
}

struct ClassSums {
    class: Class,
    sums: Box<dyn Accumulator>,
    /// The sum of the weights of what was sent, minus those of what it started from.
    weight: f64,
    senders: usize,
}

impl Accumulator for Sums {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        for contribution in contributions {
            let by_method = contribution.weight_by_method();
            let is_fresh = contribution.is_fresh;
            self.totals.add(by_method, contribution.weight, is_fresh);
        }
        for of_class in &mut self.of_classes {
            let is_own = |sent: &&Contribution<'_>| self.classes.of(sent.user) == of_class.class;
            let own: Vec<Contribution<'_>> = contributions.iter().filter(is_own).copied().collect();
            let weights = own.iter().map(|sent| sent.weight - sent.base_weight);
            of_class.weight += weights.sum::<f64>();
            of_class.senders += own.len();
            of_class.sums.absorb(&own)?;
        }
        Ok(())
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = *downcast::<Self>(other)?;
        self.totals.merge(&other.totals);
        for (sums, more) in self.of_classes.iter_mut().zip(other.of_classes) {
            sums.weight += more.weight;
            sums.senders += more.senders;
            sums.sums.merge(more.sums)?;
        }
        Ok(())
    }
}

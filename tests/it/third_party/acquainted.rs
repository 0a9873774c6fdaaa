use std::collections::BTreeMap;

use fedrecsim_core::work::Work;
use fedrecsim_core::{Result, UserId};
use fedrecsim_methods::averager::Averager;
use fedrecsim_methods::rule::ServerRule;
use fedrecsim_methods::server::{
    Accumulator, Contribution, Download, StepContext, StepReport, downcast,
};
use fedrecsim_methods::third_party::{ArrivedRequest, Exchange, Message, ThirdParty};
use fedrecsim_methods::{
    Class, Client, Entry, LocalTask, Method, Phase, Placement, Scoring, ScoringContext, Scratch,
    Server, Trained, sizes_of,
};
use fedrecsim_model::table::{Table, TableShape, TableUpdate, floats};
use fedrecsim_model::{BlockLayout, Layout, Model, ModelUpdate, Private, StateVisitor};

/// A method of two phases whose clients ask a third party how many others have asked for their
/// items.
///
/// In the first phase, which lasts one step, nothing is downloaded and every client uploads the
/// number of its ratings. From then on clients download p, ask the third party for each item that
/// they rated, and move p by what it replies. A client's private state is what it has been told.
#[derive(Clone, Debug)]
struct Acquainted {
    items: usize,
    /// Whether requests carry what must stay private, which the contract's check has to find.
    leaks: bool,
}

const COUNTING: Phase = Phase(0);

impl Acquainted {
    fn table(&self) -> TableShape {
        TableShape {
            rows: self.items,
            dimension: 1,
        }
    }

    fn number(&self) -> TableShape {
        TableShape {
            rows: 1,
            dimension: 1,
        }
    }
}

impl Method for Acquainted {
    fn initial(&self) -> Model {
        Model::of_table("p", Table::zeros(self.table()))
    }

    fn phases(&self) -> u8 {
        2
    }

    fn download_layout(&self, phase: Phase, _: Class) -> Layout {
        if phase == COUNTING {
            Layout::none()
        } else {
            self.initial().layout().clone()
        }
    }

    fn upload_layout(&self, phase: Phase, _: Class) -> Layout {
        match phase {
            COUNTING => Layout::new(vec![
                BlockLayout::weights("ratings", self.number()).statistic(),
            ]),
            _ => self.initial().layout().clone(),
        }
    }

    fn exchange(&self, phase: Phase) -> Option<Exchange> {
        (phase != COUNTING).then(|| Exchange {
            request: Layout::new(vec![
                BlockLayout::item_table("asked", self.table()).statistic(),
            ]),
            reply: Layout::new(vec![
                BlockLayout::item_table("askers", self.table()).statistic(),
            ]),
        })
    }

    fn third_party(&self) -> Option<Box<dyn ThirdParty>> {
        Some(Box::new(Acquaintances {
            asked: vec![0.0; self.items],
        }))
    }

    fn client(&self, _user: UserId) -> Box<dyn Client> {
        Box::new(Acquaintance {
            method: self.clone(),
            told: Private::new(0.0),
        })
    }

    fn server(&self) -> Box<dyn Server> {
        let model = self.initial();
        let layout = self.upload_layout(Phase(1), Class(0));
        Box::new(TwoPhases {
            averager: Averager::with_rules(model, layout, &[ServerRule::MEAN]),
            ratings: 0.0,
        })
    }
}

/// The third party. It keeps how often each item was asked for.
#[derive(Clone, Debug)]
struct Acquaintances {
    asked: Vec<f32>,
}

impl ThirdParty for Acquaintances {
    fn reply(&self, request: &ArrivedRequest<'_>) -> Result<Message> {
        let asked = &request.update.blocks[0];
        let known: Vec<(u32, f32)> = asked
            .iter()
            .map(|(row, _)| (row as u32, self.asked[row]))
            .collect();
        let known: Vec<(u32, f32)> = known
            .into_iter()
            .filter(|(_, count)| *count > 0.0)
            .collect();
        let (rows, counts): (Vec<u32>, Vec<f32>) = known.into_iter().unzip();
        let work = Work::of_row_visits(asked.iter().count() as u64);
        let update = TableUpdate::listed(asked.shape, rows, &counts, 1.0)?;
        Ok(Message {
            update: ModelUpdate::of_table(update),
            work,
        })
    }

    fn absorb(&mut self, requests: &[ArrivedRequest<'_>]) -> Result<()> {
        assert!(
            requests.is_sorted_by_key(|request| (request.user, request.invitation_id)),
            "the order of users"
        );
        for (row, bytes) in requests
            .iter()
            .flat_map(|request| request.update.blocks[0].iter())
        {
            self.asked[row] += floats(bytes).sum::<f32>();
        }
        Ok(())
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.values(&mut self.asked)
    }
}

#[derive(Clone)]
struct Acquaintance {
    method: Acquainted,
    told: Private<f32>,
}

impl Client for Acquaintance {
    fn request(&self, task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<Message> {
        assert!(task.reply.is_none(), "there is no reply before the request");
        let items = task.own.items.to_vec();
        let mut ones = vec![1.0; items.len()];
        if self.method.leaks {
            ones[0] = *self.told.get();
        }
        let work = Work::of_row_visits(items.len() as u64);
        let update = TableUpdate::listed(self.method.table(), items, &ones, 1.0)?;
        Ok(Message {
            update: ModelUpdate::of_table(update),
            work,
        })
    }

    fn train(&mut self, task: &LocalTask<'_>, _scratch: &mut Scratch) -> Result<Trained> {
        let items = task.own.items;
        if task.phase == COUNTING {
            assert!(task.reply.is_none() && task.model.blocks().is_empty());
            let count = [items.len() as f32];
            let update = TableUpdate::listed(self.method.number(), vec![0], &count, 1.0)?;
            return Ok(Trained::new(
                ModelUpdate::of_table(update),
                0.0,
                Work::of_row_visits(10),
            ));
        }
        let replied = &task
            .reply
            .expect("the reply is there before the training")
            .blocks[0];
        let told: BTreeMap<usize, f32> = replied
            .iter()
            .map(|(row, bytes)| (row, floats(bytes).sum()))
            .collect();
        *self.told.get_mut() += told.values().sum::<f32>();
        let value = |item: &u32| {
            let before = task.model.table(0).row(*item as usize)[0];
            before + 0.25 + told.get(&(*item as usize)).copied().unwrap_or_default()
        };
        let values: Vec<f32> = items.iter().map(value).collect();
        let update = TableUpdate::listed(self.method.table(), items.to_vec(), &values, 1.0)?;
        Ok(Trained::new(
            ModelUpdate::of_table(update),
            0.0,
            Work::of_row_visits(1_000),
        ))
    }

    fn scorer<'a>(&'a self, _context: ScoringContext<'a>) -> Scoring<'a> {
        Ok(Box::new(|items: &[u32], scores: &mut [f32]| {
            items
                .iter()
                .zip(scores)
                .for_each(|(item, score)| *score = *item as f32);
        }))
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.value(self.told.get_mut())
    }
}

/// The server: it counts ratings in its first step, and averages p from then on.
struct TwoPhases {
    averager: Averager,
    ratings: f32,
}

/// The server's input from either phase. Late counts of ratings are of no use any more.
struct OfBothPhases {
    ratings: f32,
    averages: Box<dyn Accumulator>,
}

impl Accumulator for OfBothPhases {
    fn absorb(&mut self, contributions: &[Contribution<'_>]) -> Result<()> {
        let (counts, tables): (Vec<_>, Vec<_>) = contributions
            .iter()
            .copied()
            .partition(|one| one.phase == COUNTING);
        self.ratings += counts
            .iter()
            .flat_map(|one| floats(&one.update.blocks[0].values))
            .sum::<f32>();
        self.averages.absorb(&tables)
    }

    fn merge(&mut self, other: Box<dyn Accumulator>) -> Result<()> {
        let other = *downcast::<Self>(other)?;
        self.ratings += other.ratings;
        self.averages.merge(other.averages)
    }
}

impl Server for TwoPhases {
    fn model(&self) -> &Model {
        self.averager.model()
    }

    fn set_model(&mut self, model: Model) -> Result<()> {
        self.averager.set_model(model)
    }

    fn phase(&self) -> Phase {
        if self.ratings == 0.0 {
            COUNTING
        } else {
            Phase(1)
        }
    }

    fn download(&self) -> Download {
        if self.phase() == COUNTING {
            Download::Nothing
        } else {
            Download::Shared(self.model().clone())
        }
    }

    fn accumulator(&self) -> Box<dyn Accumulator> {
        Box::new(OfBothPhases {
            ratings: 0.0,
            averages: self.averager.accumulator(),
        })
    }

    fn step(&mut self, sums: Box<dyn Accumulator>, step: &StepContext<'_>) -> Result<StepReport> {
        let OfBothPhases { ratings, averages } = *downcast(sums)?;
        self.ratings += ratings;
        self.averager.step(averages, step)
    }

    fn visit_state(&mut self, state: &mut StateVisitor<'_>) -> Result<()> {
        state.value(&mut self.ratings)?;
        self.averager.visit_state(state)
    }
}

pub const ACQUAINTED: Entry = Entry {
    name: "acquainted",
    summary: "asks a third party",
    source: "this test",
    placement: Placement::Assisted,
    draws_negatives: false,
    sizes: &|_, size| {
        sizes_of(&Layout::of_table(
            "p",
            TableShape {
                rows: size.items,
                dimension: 1,
            },
        ))
    },
    build: &|_, problem| {
        Ok(Box::new(Acquainted {
            items: problem.items,
            leaks: false,
        }))
    },
    ..Entry::BY_HAND
};

/// The same method, but its clients tell the third party what they have been told.
pub const LEAKING: Entry = Entry {
    build: &|_, problem| {
        Ok(Box::new(Acquainted {
            items: problem.items,
            leaks: true,
        }))
    },
    ..ACQUAINTED
};

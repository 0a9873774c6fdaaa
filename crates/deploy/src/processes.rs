//! The processes, as the run asks them.

use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use tokio::time::timeout_at;

use super::connection::Writer;
use super::connections::Connections;
use super::questions::{MOST_ASKED, Questions, unanswered};
use fedrecsim_core::{Error, Result};
use fedrecsim_sim::deployment::Hosts;
use fedrecsim_sim::workers::Working;

/// The processes, for the workers that ask them.
pub(crate) struct Processes(pub Rc<Connections>);

impl Hosts for Processes {
    fn users(&self) -> Vec<Range<u32>> {
        self.0.users()
    }

    fn ask(&self, place: usize, question: Bytes) -> Working<'_, Bytes> {
        let ask =
            |questions: &mut Questions, writer: Option<&Writer>| questions.ask(question, writer);
        let answered = self.0.of_place(place, ask);
        Box::pin(async move {
            let mut answered = answered.ok_or(Error::Interrupted)?;
            loop {
                let looks_at = self.0.end_if_silent(place);
                // If this fails, it has taken too long, or was away for a while.
                if let Ok(answer) = timeout_at(looks_at.into(), &mut answered).await {
                    return answer.map_err(|_| Error::Interrupted)?;
                }
            }
        })
    }

    fn ask_first(&self, place: usize, question: Bytes, anew: Bytes) -> Working<'_, Bytes> {
        self.0.begins_with(place, question.clone(), anew);
        self.ask(place, question)
    }

    fn begun_anew(&self) -> u64 {
        self.0.how_often_begun_anew()
    }

    fn scored(&self) {
        self.0.scored();
    }

    fn run(&self) -> u64 {
        self.0.run()
    }

    fn distrust(&self, place: usize, times: u32, reason: Error) -> Result<()> {
        let users = self.0.users().into_iter().nth(place).unwrap_or(0..1);
        if times >= MOST_ASKED {
            return Err(unanswered(&users, &reason.to_string()));
        }
        self.0
            .cut_off(place, &format!("its answer cannot be used: {reason}"));
        Ok(())
    }
}

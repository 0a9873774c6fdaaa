//! Drives a simulation from a program, which steps through rounds, looks at the model, saves, goes
//! on from there twice, and changes the model by hand in one of the two.
//!
//! ```sh
//! cargo run --release --example stepwise
//! ```

use std::io::Cursor;
use std::sync::Arc;

use fedrecsim::Result;
use fedrecsim::Streams;
use fedrecsim::method::vocabulary;
use fedrecsim::model::Table;
use fedrecsim::sim::{RunControl, Simulation, World};
use fedrecsim::{dataset, scenario};

const SCENARIO: &str = r#"
    seed = 7
    method.fedmf = { latent_dimension = 8 }
    dataset = { name = "generated", generator = { users = 60, items = 300 } }
    training = { rounds = 6 }
    codec = { uplink = "rows-f32" }
    network = { preset = "wifi-2020" }
"#;

/// Makes the world, which is the same for every simulation.
fn world() -> Result<World> {
    let scenario = scenario::parse(SCENARIO, "stepwise.toml", &[], &vocabulary())?;
    let dataset = dataset::load(&scenario.dataset, &[], Streams::new(scenario.seed))?;
    World::new(scenario, Arc::new(dataset))
}

/// Steps to the end, and returns the digest of the result.
fn finish(name: &str, mut simulation: Simulation) -> Result<String> {
    while let Some(round) = simulation.step()? {
        println!(
            "{name}: round {} ended after {:.1} s",
            round.round, round.virtual_time_s
        );
    }
    Ok(simulation.finish()?.digest)
}

fn main() -> Result<()> {
    let control = RunControl::with_threads(2);
    let mut simulation = Simulation::new(world()?, &control)?;
    for _ in 0..3 {
        simulation.step()?;
    }
    let mut saved = Vec::new();
    simulation.save(&mut saved)?;
    println!(
        "after three rounds: {} bytes saved, {} bytes sent up",
        saved.len(),
        simulation.total().up.sent
    );

    // Another simulation goes on from there, and both are alive at once.
    let restored = Simulation::restore(world()?, &control, Cursor::new(saved.clone()))?;
    let digest = finish("the first", simulation)?;
    assert_eq!(
        finish("restored", restored)?,
        digest,
        "they are the same simulation"
    );

    // A third one forgets what the model has learned, and its digest shows that the model was
    // changed by hand.
    let mut changed = Simulation::restore(world()?, &control, Cursor::new(saved))?;
    let mut model = changed.model()?;
    model.set_table(0, Arc::new(Table::zeros(model.table(0).shape())))?;
    changed.set_model(model)?;
    assert_ne!(finish("changed", changed)?, digest);
    Ok(())
}

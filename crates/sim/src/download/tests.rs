//! Tests that users receive what is sent, also from a checkpoint.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::tests::small;
use fedrecsim_core::{InvitationId, PortableDraws};
use fedrecsim_methods::server::PersonalDownloads;
use fedrecsim_model::codec::Beginning;
use fedrecsim_model::{Archive, ArchiveReader, BlockLayout, Table, TableShape};
use fedrecsim_scenario::CodecName;

/// Returns a table of FedMF's shape in the small world; every third row is zero, and one value is a
/// negative zero.
fn table_with_rows_of_zeros(world: &World) -> Table {
    let shape = world.shared_layout(Phase(0)).blocks()[0].shape;
    let mut number = 0;
    Table::from_fn(shape, || {
        number += 1;
        match number - 1 {
            0 => -0.0,
            place if place / shape.dimension % 3 == 2 => 0.0,
            place => place as f32,
        }
    })
}

fn outgoing(world: &World, number: u32, table: &Table) -> Download {
    let download = server::Download::Shared(Model::of_table("V", table.clone()));
    Download::encode(number, Phase(0), download, world).unwrap()
}

/// If this fails, a lossless codec changes a value, or sends rows that need not be sent.
#[test]
fn every_codec_sends_the_table_itself() {
    let size = |name: &str| {
        let world = small::world(&[&format!("codec.downlink=\"{name}\"")]);
        let table = table_with_rows_of_zeros(&world);
        let TableShape { rows, dimension } = table.shape();
        let download = outgoing(&world, 0, &table);
        let received = download.received(UserId(1)).unwrap();
        assert!(received.intended.is_none(), "{name} changes a bit");
        let bits = |table: &Table| {
            table
                .as_slice()
                .iter()
                .map(|value| value.to_bits())
                .collect::<Vec<_>>()
        };
        assert_eq!(bits(received.model.table(0)), bits(&table), "{name}");
        let values = download.frame(UserId(1)).unwrap().parts.values as usize;
        (values / (4 * dimension), rows, values % (4 * dimension))
    };
    let (dense, rows, rest) = size("dense-f32");
    assert_eq!((dense, rest), (rows, 0));
    assert_eq!(
        size("rows-f32"),
        (rows - rows / 3, rows, 0),
        "rows of zeros need not be sent"
    );
    assert_eq!(size("sparse-f32"), (rows - rows / 3, rows, 0));
}

/// Saves these downloads for user 0, and returns what is read back.
fn restored(downloads: &[&Download], world: &World) -> Result<Vec<Arc<Download>>> {
    let mut archive = Archive::default();
    downloads
        .iter()
        .for_each(|download| download.save(UserId(0), &mut archive).unwrap());
    let mut reader = ArchiveReader::new(Box::new(std::io::Cursor::new(archive.take().unwrap())));
    let mut all = RestoredDownloads::default();
    downloads
        .iter()
        .map(|_| all.take(&mut reader, world))
        .collect()
}

/// A method's downloads that differ from user to user.
#[derive(Debug)]
struct Tables(TableShape);

impl PersonalDownloads for Tables {
    fn download(&self, user: UserId) -> Result<Model> {
        Ok(Model::of_table(
            "V",
            Table::from_fn(self.0, || user.0 as f32),
        ))
    }

    fn has_all_blocks(&self) -> bool {
        true
    }
}

/// If this fails, a run that is resumed twice refuses two users' own downloads of one step, or
/// gives one user the download of another.
#[test]
fn a_users_own_download_is_its_own_however_often_it_is_restored() {
    let world = small::world(&[]);
    let personal = Arc::new(Tables(world.method.initial().table(0).shape()));
    let first = Download::encode(3, Phase(0), server::Download::PerUser(personal), &world).unwrap();
    let frame = |download: &Download, user| download.frame(UserId(user)).unwrap();
    assert_ne!(frame(&first, 0), frame(&first, 1));
    let once = restored(&[&first], &world).unwrap();
    let other = Download::encode(
        3,
        Phase(0),
        server::Download::Shared(world.method.initial()),
        &world,
    )
    .unwrap();
    let other = Download {
        content: held_by_one_user(other.content),
        ..other
    };
    let twice = restored(&[&once[0], &other], &world).unwrap();
    assert_eq!(frame(&twice[0], 0), frame(&first, 0));
    assert_eq!(frame(&twice[1], 0), frame(&other, 0));
    assert!(twice.iter().all(|download| !download.is_shared()));
}

/// If this fails, a user receives another download where those of a whole cohort are made together.
#[test]
fn a_users_own_download_does_not_depend_on_who_is_prepared_with_it() {
    for codec in [
        "codec.downlink=\"dense-f32\"",
        "codec.downlink={ values = \"int8\" }",
    ] {
        let world = small::world(&[codec]);
        let personal = || Arc::new(Tables(world.method.initial().table(0).shape()));
        let encoded = || {
            Download::encode(3, Phase(0), server::Download::PerUser(personal()), &world).unwrap()
        };
        let (alone, prepared) = (encoded(), encoded());
        let users = [UserId(4), UserId(1), UserId(7)];
        prepared.expect(&users);
        prepared.frame(UserId(7)).unwrap();
        prepared.expect(&users[1..]);
        for (user, own) in users.iter().zip(prepared.of_each(&users).unwrap()) {
            let expected = alone.frame(*user).unwrap();
            assert_eq!(prepared.frame(*user).unwrap(), expected);
            assert_eq!(own.frame(*user).unwrap(), expected);
            let expected = alone.received(*user).unwrap();
            for received in [
                prepared.received(*user).unwrap(),
                own.received(*user).unwrap(),
            ] {
                assert!(received.model.table(0) == expected.model.table(0));
                assert_eq!(received.intended.is_some(), expected.intended.is_some());
            }
            assert_eq!(
                (own.number_for(*user), own.is_shared()),
                (alone.number_for(*user), false)
            );
        }
        assert!(
            outgoing(&world, 3, world.method.initial().table(0))
                .of_each(&users)
                .is_err()
        );
    }
}

/// The download of users with odd numbers alone, and whether it is said that all have one.
#[derive(Debug)]
struct ForSome(Tables, bool);

impl PersonalDownloads for ForSome {
    fn download(&self, user: UserId) -> Result<Model> {
        match user.0 % 2 {
            0 => Ok(Model::none()),
            _ => self.0.download(user),
        }
    }

    fn has_all_blocks(&self) -> bool {
        self.1
    }
}

/// If this fails, a user pays for another length than that of its frame, which a method has announced.
#[test]
fn a_block_that_was_announced_and_is_missing_is_an_error() {
    let world = small::world(&["codec.downlink=\"dense-f32\""]);
    let all = ForSome(Tables(world.method.initial().table(0).shape()), true);
    let personal = server::Download::PerUser(Arc::new(all));
    let mut download = Download::encode(3, Phase(0), personal, &world).unwrap();
    if let Content::PerUser(personal) = &mut download.content {
        let layouts = personal.layouts.iter();
        personal.layouts = layouts.map(|of| of.clone().optional_from(0)).collect();
    }
    let error = download.frame(UserId(2)).unwrap_err().to_string();
    assert!(error.contains("announces all blocks"), "{error}");
    assert!(download.frame(UserId(3)).is_ok());
}

/// If this fails, a user for whom the server has nothing receives a table of zeros, pays for one, or
/// cannot be served in a method that says that there may be nothing.
#[test]
fn a_user_for_whom_there_is_nothing_receives_an_empty_frame() {
    for codec in [
        "codec.downlink=\"dense-f32\"",
        "codec.downlink={ values = \"int8\" }",
    ] {
        let world = small::world(&[codec]);
        let some = Tables(world.method.initial().table(0).shape());
        let some = Arc::new(ForSome(some, false));
        let strict =
            Download::encode(3, Phase(0), server::Download::PerUser(some), &world).unwrap();
        assert!(strict.frame(UserId(2)).is_err(), "a block is missing");
        let mut download = strict;
        if let Content::PerUser(personal) = &mut download.content {
            let layouts = personal.layouts.iter();
            personal.layouts = layouts.map(|of| of.clone().optional_from(0)).collect();
        }
        let [nothing, whole] = [2, 3].map(|user| download.frame(UserId(user)).unwrap().bytes);
        assert!(nothing.len() < 20 && whole.len() > 100);
        assert!(
            [&nothing, &whole]
                .into_iter()
                .all(|frame| download.is_sound(frame, UserId(3), None))
        );
        let received = |user| download.received(UserId(user)).unwrap().into_owned();
        assert_eq!(received(2).model, Model::none());
        assert_eq!(received(2).frame_bytes, nothing.len() as u64);
        assert_eq!(
            received(3).model.layout(),
            download
                .layout_for(UserId(3))
                .beginning(1)
                .as_ref()
                .unwrap()
        );
    }
}

/// If this fails, the frames of a large population are kept in memory, or the frames of those who
/// stand side by side are made one by one.
#[test]
fn frames_of_the_last_groups_are_kept() {
    let world = small::world(&[]);
    let personal = Arc::new(Tables(world.method.initial().table(0).shape()));
    let download =
        Download::encode(3, Phase(0), server::Download::PerUser(personal), &world).unwrap();
    let kept = || {
        let Content::PerUser(personal) = &download.content else {
            panic!("everybody has the same")
        };
        personal.kept_groups()
    };
    let everybody: Vec<UserId> = (0..1000).map(UserId).collect();
    download.expect(&everybody);
    assert_eq!(kept(), [[]; 0]);
    let groups: Vec<&[UserId]> = everybody.chunks(16).collect();
    for user in [2, 18, 3, 2000] {
        download.frame(UserId(user)).unwrap();
    }
    assert_eq!(kept(), [groups[1], groups[0], &[UserId(2000)]]);
    for user in &everybody {
        download.frame(*user).unwrap();
    }
    let last = 4 + rayon::current_num_threads();
    assert_eq!(kept(), groups[groups.len() - last..]);
}

/// If this fails, the network carries another number of bytes than a frame has, or a download is
/// made for a length that is known before.
#[test]
fn the_bytes_of_a_users_own_download_may_be_known_before_it_is_made() {
    for (codec, is_known) in [("\"dense-f32\"", true), ("{ values = \"int8\" }", false)] {
        let world = small::world(&[&format!("codec.downlink={codec}")]);
        let personal = Arc::new(Tables(world.method.initial().table(0).shape()));
        let download =
            Download::encode(3, Phase(0), server::Download::PerUser(personal), &world).unwrap();
        let parts = download.parts(UserId(3)).unwrap();
        let Content::PerUser(personal) = &download.content else {
            panic!("everybody has the same")
        };
        assert_eq!(personal.kept_groups().is_empty(), is_known, "{codec}");
        // A statistic is read without the download, so that none is made for it.
        let layout = world.upload_layout(Phase(0), UserId(4));
        let statistics = layout.blocks().iter().cloned();
        let statistics = Layout::new(statistics.map(BlockLayout::statistic).collect());
        let participant = (UserId(4), InvitationId(0));
        let base = |layout| {
            download
                .base_of(layout, None, participant)
                .unwrap()
                .into_owned()
        };
        let made = personal.kept_groups();
        assert_eq!(base(&statistics).model, Model::none(), "{codec}");
        assert_eq!(personal.kept_groups(), made, "{codec}");
        assert!(base(layout).model != Model::none(), "{codec}");
        assert_eq!(parts, download.frame(UserId(3)).unwrap().parts, "{codec}");
    }
}

fn held_by_one_user(content: Content) -> Content {
    let Content::Held {
        frame,
        intended,
        received,
        ..
    } = content
    else {
        panic!("not held")
    };
    Content::Held {
        frame,
        intended,
        received,
        is_shared: false,
    }
}

/// If this fails, restoring a checkpoint makes two downloads of one, which costs memory, or one of
/// two, which changes the order of a sum.
#[test]
fn users_who_shared_a_download_share_it_again_and_others_do_not() {
    let world = small::world(&[]);
    let table = Table::clone(world.method.initial().table(0));
    let restored = |downloads: &[&Download]| restored(downloads, &world);
    let (first, second) = (outgoing(&world, 3, &table), outgoing(&world, 5, &table));
    let back = restored(&[&first, &second, &first, &second]).unwrap();
    assert_eq!(
        back.iter().map(|one| one.number()).collect::<Vec<_>>(),
        [3, 5, 3, 5]
    );
    assert!(
        Arc::ptr_eq(&back[0], &back[2])
            && Arc::ptr_eq(&back[1], &back[3])
            && !Arc::ptr_eq(&back[0], &back[1])
    );
    for one in &back {
        assert_eq!(
            one.frame(UserId(0)).unwrap(),
            first.frame(UserId(0)).unwrap()
        );
        assert!(**one.received(UserId(0)).unwrap().model.table(0) == table);
    }
    let other = outgoing(&world, 3, &Table::zeros(table.shape()));
    assert!(matches!(
        restored(&[&first, &other]),
        Err(Error::Unrestorable(_))
    ));
}

/// Returns a world whose downlink sends differences in four bits.
fn changing_world(first_download: &str) -> Arc<World> {
    let first_download = format!("codec.first_download=\"{first_download}\"");
    small::world(&[
        "codec.downlink={ delta = true, values = \"int4\", entropy = \"ans\" }",
        &first_download,
        "dataset.generator.users=20",
    ])
}

/// Returns models that differ a little from each other; the first is the method's initial model.
fn models(world: &World, count: usize) -> Vec<Model> {
    let mut stream = Streams::new(3).stream(fedrecsim_core::Purpose::Line, 0, 0);
    let mut models = vec![world.method.initial()];
    while models.len() < count {
        let mut next = models[models.len() - 1].clone();
        let changed = next.table_mut(0).as_mut_slice();
        changed
            .iter_mut()
            .step_by(3)
            .for_each(|value| *value += 0.01 * stream.standard_normal() as f32);
        models.push(next);
    }
    models
}

/// Returns the bits of the only table of a model.
fn bits_of(model: &Model) -> Vec<u32> {
    model
        .table(0)
        .as_slice()
        .iter()
        .map(|value| value.to_bits())
        .collect()
}

/// If this fails, a device that has some version ends up with another model than the server takes
/// it to have, or the bytes that are booked are not those that travel.
#[test]
fn whoever_has_a_version_has_the_same_bits() {
    for first_download in ["values", "seed"] {
        let world = changing_world(first_download);
        let (mut versions, mut devices) = (Versions::new(Phase(0), &world), vec![None; 4]);
        let format = (&world.downlink, world.shared_layout(Phase(0)));
        for (number, model) in (0u32..).zip(models(&world, 9)) {
            let version = versions.advance(number, model.clone(), &world).unwrap();
            // Device 0 never misses a version, 1 every other one, and the others have long
            // absences.
            let present =
                (0..4u32).filter(|device| number % [1, 2, 4, 7][*device as usize] == *device % 2);
            let users: Vec<UserId> = present.map(UserId).collect();
            let held = versions.held_by(users.iter().copied());
            let download = Download::of_version(version, Phase(0), held, &world);
            for user in users {
                let frame = download.frame(user).unwrap();
                assert_eq!(frame.parts, download.parts(user).unwrap());
                assert_eq!(frame.parts.total(), frame.bytes.len() as u64);
                assert!(download.is_sound(&frame.bytes, UserId(1), None));
                let device = &mut devices[user.0 as usize];
                let drawn = |seed| {
                    assert_eq!(seed, world.scenario.seed);
                    world.method.initial()
                };
                let held = device.take();
                *device = Some(received_on_a_device(&frame.bytes, held, format, drawn).unwrap());
                let received = download.received(user).unwrap();
                assert_eq!(received.frame_bytes, frame.bytes.len() as u64);
                assert_eq!(
                    device
                        .as_ref()
                        .map(|(number, model)| (*number, bits_of(model))),
                    Some((number, bits_of(&received.model)))
                );
                // Of device 3, the server hears of only every other version, so that it gets
                // changes that it has.
                if user.0 != 3 || number % 2 == 0 {
                    versions.acknowledge(user, number);
                }
            }
            let newest = bits_of(&download.received(UserId(0)).unwrap().model);
            let error = model
                .table(0)
                .as_slice()
                .iter()
                .zip(newest)
                .map(|(meant, has)| (meant - f32::from_bits(has)).abs());
            assert!(
                error.fold(0.0f32, f32::max) < 0.01,
                "the sequence has lost the model"
            );
        }
        assert!(versions.cost().differences_bytes > 0);
    }
}

/// If this fails, a device downloads more than it needs: who is one version behind gets one
/// difference, and who has nothing gets the shorter of all differences and the whole model.
#[test]
fn the_shorter_way_to_a_version_is_taken() {
    let lengths = |first_download| {
        let world = changing_world(first_download);
        let mut versions = Versions::new(Phase(0), &world);
        let mut version = None;
        for (number, model) in (0u32..).zip(models(&world, 4)) {
            version = Some(versions.advance(number, model, &world).unwrap());
        }
        let version = version.unwrap();
        [Some(3), Some(2), Some(1), None].map(|held| version.frame(held).unwrap().bytes.len())
    };
    let world = changing_world("values");
    let whole = world.shared_layout(Phase(0)).bytes();
    let [none, one, two, all] = lengths("values");
    assert_eq!(none, 12, "nothing is new");
    assert!(one < two && two < whole && all > whole);
    let [_, _, _, from_seed] = lengths("seed");
    assert!(two < from_seed && from_seed < whole);
}

/// If this fails, a run that is resumed sends other differences than one that was not interrupted.
#[test]
fn a_sequence_goes_on_after_a_checkpoint() {
    let world = changing_world("seed");
    let mut versions = Versions::new(Phase(0), &world);
    let models = models(&world, 5);
    for (number, model) in (0u32..).zip(&models[..4]) {
        versions.advance(number, model.clone(), &world).unwrap();
        versions.acknowledge(UserId(2), number);
    }
    let mut archive = Archive::default();
    versions.save(&mut archive);
    let mut reader = ArchiveReader::new(Box::new(std::io::Cursor::new(archive.take().unwrap())));
    let mut restored = Versions::restore(Phase(0), &mut reader, &world).unwrap();
    assert_eq!(restored.cost(), versions.cost());
    let users = || [1, 2].map(UserId).into_iter();
    assert_eq!(restored.held_by(users()), versions.held_by(users()));
    let next = |versions: &mut Versions| {
        let version = versions.advance(4, models[4].clone(), &world).unwrap();
        [None, Some(1), Some(3)].map(|held| version.frame(held).unwrap().bytes)
    };
    assert_eq!(next(&mut restored), next(&mut versions));
}

/// Returns the model of a device after a frame of changes; it had version `held` before.
///
/// # Errors
/// [`Error::Frame`] for anything but a sound frame that begins with a version that the device has.
fn received_on_a_device(
    frame: &Bytes,
    held: Option<(u32, Model)>,
    (codecs, layout): (&BlockCodecs, &Layout),
    drawn: impl FnOnce(u64) -> Model,
) -> Result<(u32, Model)> {
    let (beginning, versions) = codec::unbundle(frame)?;
    let mut held = match beginning {
        Beginning::Seed(seed) => held.or_else(|| Some((0, drawn(seed)))),
        Beginning::Held | Beginning::Whole => held,
    };
    for (place, (number, own)) in versions.iter().enumerate() {
        if held.as_ref().is_some_and(|(held, _)| held >= number) {
            continue;
        }
        let is_whole = place == 0 && beginning == Beginning::Whole;
        let whole = BlockCodecs::every(CodecName::SparseF32);
        let (codecs, base) = match (&held, is_whole) {
            (_, true) => (&whole, &Model::none()),
            (Some((_, model)), false) => (codecs, model),
            (None, false) => {
                return Err(Error::Frame(
                    "it changes a version that the device does not have".into(),
                ));
            }
        };
        let model = codecs.decode(own, layout, base)?.apply(layout, base)?;
        held = Some((*number, model));
    }
    held.ok_or_else(|| Error::Frame("it has no model for a device that has none".into()))
}

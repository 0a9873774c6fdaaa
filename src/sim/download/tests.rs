//! Tests that users receive what is sent, also from a checkpoint.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::model::table::TableShape;
use crate::sim::small;

/// Returns a table of FedMF's shape in the small world, in which every third row is zero, and one value is a negative
/// zero.
fn table_with_rows_of_zeros(world: &World) -> Table {
    let shape = world.download_layout(Phase(0)).blocks()[0].shape;
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

fn outgoing(world: &World, number: u32, table: &Table) -> OutgoingDownload {
    let download = Download::Shared(Model::of_table("V", table.clone()));
    OutgoingDownload::encode(number, Phase(0), download, world).unwrap()
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
        let bits = |table: &Table| table.as_slice().iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(received.model.table(0)), bits(&table), "{name}");
        let values = download.frame(UserId(1)).unwrap().parts.values as usize;
        (values / (4 * dimension), rows, values % (4 * dimension))
    };
    let (dense, rows, rest) = size("dense-f32");
    assert_eq!((dense, rest), (rows, 0));
    assert_eq!(size("rows-f32"), (rows - rows / 3, rows, 0), "rows of zeros need not be sent");
    assert_eq!(size("sparse-f32"), (rows - rows / 3, rows, 0));
}

/// Saves these downloads for user 0, and returns what is read back.
fn restored(downloads: &[&OutgoingDownload], world: &World) -> Result<Vec<Arc<OutgoingDownload>>> {
    let mut archive = Archive::default();
    downloads.iter().for_each(|download| download.save(UserId(0), &mut archive).unwrap());
    let mut reader = ArchiveReader::new(Box::new(std::io::Cursor::new(archive.take().unwrap())));
    let mut all = RestoredDownloads::default();
    downloads.iter().map(|_| all.take(&mut reader, world)).collect()
}

/// A method's downloads that differ from user to user.
#[derive(Debug)]
struct Tables(TableShape);

impl PersonalDownloads for Tables {
    fn download(&self, user: UserId) -> Result<Model> {
        Ok(Model::of_table("V", Table::from_fn(self.0, || user.0 as f32)))
    }
}

/// If this fails, a run that is resumed twice refuses two users' own downloads of one step, or gives one user the
/// download of another.
#[test]
fn a_users_own_download_is_its_own_however_often_it_is_restored() {
    let world = small::world(&[]);
    let personal = Arc::new(Tables(world.method.initial().table(0).shape()));
    let first = OutgoingDownload::encode(3, Phase(0), Download::PerUser(personal), &world).unwrap();
    let frame = |download: &OutgoingDownload, user| download.frame(UserId(user)).unwrap();
    assert_ne!(frame(&first, 0), frame(&first, 1));
    let once = restored(&[&first], &world).unwrap();
    let other = OutgoingDownload::encode(3, Phase(0), Download::Shared(world.method.initial()), &world).unwrap();
    let other = OutgoingDownload { content: held_by_one_user(other.content), ..other };
    let twice = restored(&[&once[0], &other], &world).unwrap();
    assert_eq!(frame(&twice[0], 0), frame(&first, 0));
    assert_eq!(frame(&twice[1], 0), frame(&other, 0));
    assert!(twice.iter().all(|download| !download.is_shared()));
}

fn held_by_one_user(content: Content) -> Content {
    let Content::Held { frame, intended, received, .. } = content else { panic!("not held") };
    Content::Held { frame, intended, received, is_shared: false }
}

/// If this fails, restoring a checkpoint makes two downloads of one, which costs memory, or one of two, which changes
/// the order in which a sum is added.
#[test]
fn users_who_shared_a_download_share_it_again_and_others_do_not() {
    let world = small::world(&[]);
    let table = Table::clone(world.method.initial().table(0));
    let restored = |downloads: &[&OutgoingDownload]| restored(downloads, &world);
    let (first, second) = (outgoing(&world, 3, &table), outgoing(&world, 5, &table));
    let back = restored(&[&first, &second, &first, &second]).unwrap();
    assert_eq!(back.iter().map(|one| one.number()).collect::<Vec<_>>(), [3, 5, 3, 5]);
    assert!(Arc::ptr_eq(&back[0], &back[2]) && Arc::ptr_eq(&back[1], &back[3]) && !Arc::ptr_eq(&back[0], &back[1]));
    for one in &back {
        assert_eq!(one.frame(UserId(0)).unwrap(), first.frame(UserId(0)).unwrap());
        assert!(**one.received(UserId(0)).unwrap().model.table(0) == table);
    }
    let other = outgoing(&world, 3, &Table::zeros(table.shape()));
    assert!(matches!(restored(&[&first, &other]), Err(Error::Checkpoint(_))));
}

//! Many lists of entries, short and long, that share one piece of memory.

/// The number of entries in a chunk, which then has 512 bytes.
const CHUNK: usize = 32;
const NOTHING: Entry = Entry {
    time: 0,
    slot: 0,
    generation: 0,
};

/// A time, with the slot that holds the event. The slot's generation tells whether the event was
/// cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The time in nanoseconds since the start of the run.
    pub time: u64,
    /// The number of the slot that holds the event.
    pub slot: u32,
    /// The slot's generation when the event was scheduled.
    pub generation: u32,
}

/// Lists that grow at their end and are emptied from their beginning.
///
/// They are made of chunks of equal size, so no list is copied when it grows, and a chunk that was
/// emptied is the next to be filled while it is still in the cache. The memory is that of the most
/// entries ever held, plus one chunk for each list.
#[derive(Debug)]
pub(super) struct Buckets {
    chunks: Vec<[Entry; CHUNK]>,
    free: Vec<u32>,
    lists: Vec<List>,
}

#[derive(Clone, Debug, Default)]
struct List {
    len: usize,
    /// The chunk that is being filled. If `len` is a multiple of a chunk's size, there is none.
    last: u32,
    /// All chunks of the list, in order, the last one included.
    chunks: Vec<u32>,
}

impl Buckets {
    /// Makes as many empty lists as `lists` says.
    pub(crate) fn new(lists: usize) -> Self {
        Self {
            chunks: Vec::new(),
            free: Vec::new(),
            lists: vec![List::default(); lists],
        }
    }

    /// Returns how many entries a list has.
    pub(crate) fn len(&self, list: usize) -> usize {
        self.lists[list].len
    }

    /// Appends an entry to a list.
    pub(crate) fn push(&mut self, list: usize, entry: Entry) {
        let list = &mut self.lists[list];
        let place = list.len % CHUNK;
        if place == 0 {
            list.last = self.free.pop().unwrap_or_else(|| {
                self.chunks.push([NOTHING; CHUNK]);
                // The number fits, since 2^32 chunks would take 2 TB.
                (self.chunks.len() - 1) as u32
            });
            list.chunks.push(list.last);
        }
        self.chunks[list.last as usize][place] = entry;
        list.len += 1;
    }

    /// Returns the entries of a list, in order.
    pub(crate) fn iter(&self, list: usize) -> impl Iterator<Item = &Entry> {
        let List { len, chunks, .. } = &self.lists[list];
        let entries = chunks
            .iter()
            .flat_map(|chunk| &self.chunks[*chunk as usize]);
        entries.take(*len)
    }

    /// Empties a list and passes its entries to `give`, in order and in pieces that are not empty.
    /// `give` may append to other lists.
    pub(crate) fn drain(&mut self, list: usize, mut give: impl FnMut(&mut Self, &[Entry])) {
        let List {
            mut len,
            mut chunks,
            ..
        } = std::mem::take(&mut self.lists[list]);
        for &chunk in &chunks {
            let entries = self.chunks[chunk as usize];
            // The entries are copied, so that the chunk can be filled again at once.
            self.free.push(chunk);
            let held = len.min(CHUNK);
            give(self, &entries[..held]);
            len -= held;
        }
        // A short list of chunks is kept for the next time, which takes a constant amount of
        // memory.
        if chunks.capacity() <= CHUNK && self.lists[list].len == 0 {
            chunks.clear();
            self.lists[list].chunks = chunks;
        }
    }
}

//! Many short and long lists of entries in one piece of memory.

/// Entries of a chunk: 512 bytes.
const CHUNK: usize = 32;
const NOTHING: Entry = Entry { time: 0, slot: 0, generation: 0 };

/// A time with what stands for the event: its slot, and the slot's generation by which a cancelled one is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Nanoseconds since the start of the run.
    pub time: u64,
    /// Where the event is.
    pub slot: u32,
    /// The slot's generation when the event was scheduled.
    pub generation: u32,
}

/// Lists to which entries are appended, and which are emptied from their beginning.
///
/// They are made of chunks of equal size: no list is copied when it grows, and a chunk that was emptied is the next
/// to be filled while it is still in the cache. Memory is that of the most entries ever held, and of a chunk a list.
#[derive(Debug)]
pub(super) struct Buckets {
    chunks: Vec<[Entry; CHUNK]>,
    free: Vec<u32>,
    lists: Vec<List>,
}

#[derive(Clone, Debug, Default)]
struct List {
    len: usize,
    /// The chunk that is being filled, unless `len` is a multiple of a chunk.
    last: u32,
    /// All chunks, that one included.
    chunks: Vec<u32>,
}

impl Buckets {
    /// So many empty lists.
    pub fn new(lists: usize) -> Self {
        Self { chunks: Vec::new(), free: Vec::new(), lists: vec![List::default(); lists] }
    }

    /// Entries in a list.
    pub fn len(&self, list: usize) -> usize {
        self.lists[list].len
    }

    /// Appends an entry to a list.
    pub fn push(&mut self, list: usize, entry: Entry) {
        let list = &mut self.lists[list];
        let place = list.len % CHUNK;
        if place == 0 {
            list.last = self.free.pop().unwrap_or_else(|| {
                self.chunks.push([NOTHING; CHUNK]);
                // 2^32 chunks would take 2 TB.
                (self.chunks.len() - 1) as u32
            });
            list.chunks.push(list.last);
        }
        self.chunks[list.last as usize][place] = entry;
        list.len += 1;
    }

    /// The entries of a list, in order.
    pub fn iter(&self, list: usize) -> impl Iterator<Item = &Entry> {
        let List { len, chunks, .. } = &self.lists[list];
        let entries = chunks.iter().flat_map(|chunk| &self.chunks[*chunk as usize]);
        entries.take(*len)
    }

    /// Empties a list, in order and in pieces that are not empty. What is given them may append to other lists.
    pub fn drain(&mut self, list: usize, mut give: impl FnMut(&mut Self, &[Entry])) {
        let List { mut len, mut chunks, .. } = std::mem::take(&mut self.lists[list]);
        for &chunk in &chunks {
            let entries = self.chunks[chunk as usize];
            // Copied, so that the chunk can be filled again at once.
            self.free.push(chunk);
            let held = len.min(CHUNK);
            give(self, &entries[..held]);
            len -= held;
        }
        // A short list of chunks is kept for the next time: a constant amount of memory.
        if chunks.capacity() <= CHUNK && self.lists[list].len == 0 {
            chunks.clear();
            self.lists[list].chunks = chunks;
        }
    }
}

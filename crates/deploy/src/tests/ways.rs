//! Ways from processes to the server, which break.

use super::*;

/// Is a process with these users, whose first connections break after so many bytes from it.
pub(super) fn on_breaking_ways(address: SocketAddr, users: Range<u32>, after: [usize; 2]) {
    let process = |address, users| device_process(address, users).unwrap();
    on_a_way(address, users, process, |number, device, server| {
        let most = after.get(number).copied().unwrap_or(usize::MAX);
        between(device, server, most);
    });
}

/// Connects a device process with the server, until so many bytes have come from it.
pub(super) fn relay(device: TcpStream, address: SocketAddr, most: usize) {
    between(device, TcpStream::connect(address).unwrap(), most);
}

/// Carries everything in both directions, until so many bytes have come from the device.
fn between(device: TcpStream, server: TcpStream, most: usize) {
    let (from, to) = (device.try_clone().unwrap(), server.try_clone().unwrap());
    let up = thread::spawn(move || pass(from, to, most));
    pass(server, device, usize::MAX);
    up.join().unwrap();
}

/// Passes on bytes until there are no more or `most` were passed, and ends both connections.
pub(super) fn pass(mut from: TcpStream, mut to: TcpStream, most: usize) {
    let (mut passed, mut buffer) = (0, [0; 512]);
    while passed < most {
        match from.read(&mut buffer) {
            Ok(count) if count > 0 && to.write_all(&buffer[..count]).is_ok() => passed += count,
            _ => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// Is a process with these users, whose connections `way` carries to the server, each with its number.
pub(super) fn on_a_way(
    address: SocketAddr,
    users: Range<u32>,
    process: impl Fn(SocketAddr, Range<u32>),
    way: impl Fn(usize, TcpStream, TcpStream) + Sync,
) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let detour = listener.local_addr().unwrap();
    let over = Over(AtomicBool::default(), detour);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                let (device, _) = listener.accept().unwrap();
                if over.0.load(Ordering::Relaxed) {
                    return;
                }
                // A server that has ended leaves the process without a connection, and it says so.
                let Ok(server) = TcpStream::connect(address) else {
                    continue;
                };
                // Small messages would wait for acknowledgements.
                for stream in [&device, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                way(number, device, server);
            }
        });
        let _ends = Ends(&over);
        process(detour, users);
    });
}

/// Whether a way is not used any more, and its address.
struct Over(AtomicBool, SocketAddr);

/// Ends a way with its process, even if that panics. The test would wait for it for ever.
struct Ends<'w>(&'w Over);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let Over(is_over, address) = self.0;
        is_over.store(true, Ordering::Relaxed);
        // This wakes the thread that accepts.
        let _ = TcpStream::connect(address);
    }
}

pub(super) fn usual(address: SocketAddr, users: Range<u32>) {
    device_process(address, users).unwrap();
}

/// Carries everything in both directions.
pub(super) fn carry(device: TcpStream, server: TcpStream) {
    between(device, server, usize::MAX);
}

/// Carries messages until one of this kind has come from the server and been brought to the device.
pub(super) fn carry_until(device: &TcpStream, server: &TcpStream, is_last: impl Fn(Head) -> bool) {
    carry_while(device, server, |whole, to| {
        to.write_all(whole).unwrap();
        !is_last(head(whole))
    });
}

/// Carries messages to the server, and gives those from there to `bring` until it returns false.
pub(super) fn carry_while(
    device: &TcpStream,
    server: &TcpStream,
    bring: impl Fn(&[u8], &mut TcpStream) -> bool,
) {
    let (mut from, mut to) = (device.try_clone().unwrap(), server.try_clone().unwrap());
    let up = thread::spawn(move || {
        while whole_message(&mut from).is_ok_and(|whole| to.write_all(&whole).is_ok()) {}
    });
    let (mut from, mut to) = (server.try_clone().unwrap(), device.try_clone().unwrap());
    while whole_message(&mut from).is_ok_and(|whole| bring(&whole, &mut to)) {}
    let _ = device.shutdown(Shutdown::Both);
    up.join().unwrap();
}

pub(super) fn head(whole: &[u8]) -> Head {
    let message = whole[LENGTH_BYTES..].to_vec();
    Message::read(message.into()).unwrap().head
}

/// Reads a message with its length.
pub(super) fn whole_message(from: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut whole = vec![0; LENGTH_BYTES];
    from.read_exact(&mut whole)?;
    let length = u32::from_le_bytes([whole[0], whole[1], whole[2], whole[3]]);
    whole.resize(LENGTH_BYTES + length as usize, 0);
    from.read_exact(&mut whole[LENGTH_BYTES..])?;
    Ok(whole)
}

/// Is a process that does not come back.
pub(super) fn unlucky(address: SocketAddr, users: Range<u32>) {
    let joining = joining(users, None);
    let attempts = 0;
    let once = Joining {
        attempts,
        ..joining
    };
    join(&once, address).unwrap_err();
}

//! One connection from its first byte to its end, or until it is offloaded.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;
use socket2::{Domain, Socket, Type};
use tributary_offload::{
    Checkpoint, NotQuiescent, Pause, SlowStartDetector, check_quiescent, checkpoint_both, drop_incoming_data, release,
};
use tributary_sys::TcpInfo;

use crate::Options;
use crate::direction::Direction;
use crate::offloaded::OffloadedConnections;

/// How long data of either end is dropped at most, and how long a pause without progress lasts.
const REST: Duration = Duration::from_secs(1);
/// How long both ends are paused at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const TRIES: u32 = 8;
/// No round is shorter: the relay wakes up for pieces of some hundred kilobytes.
const SHORTEST_ROUND: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_millis(1);

/// Both sockets, first the client's, and what goes from each to the other.
struct Session {
    sockets: [TcpStream; 2],
    directions: [Direction; 2],
}

/// Relays between `client` and the server that the options name, and tells what became of it.
pub fn run(client: TcpStream, options: &Options, offloaded: &OffloadedConnections) {
    let begun = Session::begin(client, options);
    let ended = begun.and_then(|session| session.relay(options, offloaded));
    if let Err(error) = ended {
        println!("{}", json!({"reason": error.to_string()}));
    }
}

impl Session {
    fn begin(client: TcpStream, options: &Options) -> io::Result<Self> {
        let server = Socket::new(Domain::for_address(options.to), Type::STREAM, None)?;
        Pause::prepare(&server)?;
        server.connect(&options.to.into())?;
        let sockets = [client, server.into()];
        for socket in &sockets {
            socket.set_nodelay(true)?;
            socket.set_nonblocking(true)?;
        }
        Ok(Self {
            sockets,
            directions: [Direction::new(), Direction::new()],
        })
    }

    fn relay(mut self, options: &Options, offloaded: &OffloadedConnections) -> io::Result<()> {
        let (started, mut detector) = (Instant::now(), SlowStartDetector::default());
        let (mut tries, mut why) = (0, "it was not tried".to_owned());
        while !self.directions.iter().all(|direction| direction.ended) {
            self.wait(None)?;
            self.pump()?;
            let (now, moved, round) = (started.elapsed(), self.passed(), self.round()?);
            detector.hear(now, moved, self.directions.iter().all(Direction::is_empty), round);
            let over = detector.watch(now, moved, round);
            if options.relay_only || tries == TRIES || !over || self.passed() < options.after {
                continue;
            }
            tries += 1;
            detector = SlowStartDetector::default();
            let paused = self.pause()?;
            let dropping = Instant::now();
            match self.checkpoint()? {
                Ok(state) => {
                    let relayed = self.passed();
                    match offloaded.add(self.sockets, &state, relayed) {
                        Ok(()) => {
                            let paused = dropping.elapsed().as_secs_f64() * 1e3;
                            println!("{}", json!({"paused": paused}));
                            return Ok(());
                        }
                        Err((error, sockets)) => {
                            self.sockets = sockets;
                            (why, tries) = (error.to_string(), TRIES);
                        }
                    }
                }
                Err(obstacle) => why = obstacle.to_string(),
            }
            for (socket, pause) in self.sockets.iter().zip(paused) {
                pause.end(socket)?;
            }
        }
        println!("{}", json!({"reason": why, "relayed": self.passed()}));
        Ok(())
    }

    fn pump(&mut self) -> io::Result<()> {
        let [client, server] = &self.sockets;
        self.directions[0].pump(client, server)?;
        self.directions[1].pump(server, client)
    }

    fn passed(&self) -> u64 {
        self.directions.iter().map(|direction| direction.passed).sum()
    }

    fn round(&self) -> io::Result<Duration> {
        let [client, server] = [&self.sockets[0], &self.sockets[1]].map(TcpInfo::of);
        Ok((client?.round_trip_time() + server?.round_trip_time()).max(SHORTEST_ROUND))
    }

    /// Waits until something can be moved, or for so long.
    fn wait(&self, most: Option<Duration>) -> io::Result<()> {
        let wanted = |own: usize| {
            let (incoming, outgoing) = (&self.directions[own], &self.directions[1 - own]);
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::IN, incoming.is_empty() && !incoming.ended);
            wanted.set(PollFlags::OUT, !outgoing.is_empty());
            wanted
        };
        let mut sockets = [0, 1].map(|own| PollFd::new(&self.sockets[own], wanted(own)));
        let most = most.and_then(|most| Timespec::try_from(most).ok());
        poll(&mut sockets, most.as_ref())?;
        Ok(())
    }

    /// Moves on until both ends pause and both connections rest, as long as that comes nearer.
    fn pause(&mut self) -> io::Result<[Pause; 2]> {
        let [client, server] = &self.sockets;
        let paused = [Pause::begin(client)?, Pause::begin(server)?];
        let end = Instant::now() + LONGEST_PAUSE;
        let (mut before, mut late) = (None, Instant::now() + REST);
        loop {
            let obstacle = self.obstacle()?;
            let [client, server] = &self.sockets;
            let hold = paused[0].holds(client)? && paused[1].holds(server)?;
            if (obstacle.is_none() && hold) || Instant::now() >= late.min(end) {
                return Ok(paused);
            }
            let state = (self.passed(), obstacle.map(|obstacle| obstacle.to_string()));
            if before.as_ref() != Some(&state) {
                (before, late) = (Some(state), Instant::now() + REST);
            }
            self.wait(Some(LOOK))?;
        }
    }

    /// Moves what can be moved; what keeps the connections from rest after that.
    fn obstacle(&mut self) -> io::Result<Option<NotQuiescent>> {
        self.pump()?;
        let [client, server] = &self.sockets;
        let rests = check_quiescent(client).and_then(|()| check_quiescent(server));
        let waiting = self.directions.iter().map(Direction::waiting).sum();
        Ok(rests.err().or((waiting != 0).then_some(NotQuiescent::Unread(waiting))))
    }

    /// Both states, once all that was read is with the ends; or what was in the path, and then it goes on.
    fn checkpoint(&mut self) -> io::Result<Result<[Checkpoint; 2], NotQuiescent>> {
        drop_incoming_data(&self.sockets.each_ref().map(TcpStream::as_fd))?;
        let rests = self.rest()?;
        let sockets = self.sockets.each_ref().map(TcpStream::as_fd);
        if let Err(obstacle) = rests {
            for socket in sockets {
                release(socket)?;
            }
            return Ok(Err(obstacle));
        }
        Ok(checkpoint_both(sockets))
    }

    /// Moves on until both connections rest.
    fn rest(&mut self) -> io::Result<Result<(), NotQuiescent>> {
        let late = Instant::now() + REST;
        loop {
            match self.obstacle()? {
                Some(obstacle) if obstacle.may_pass() && Instant::now() < late => {}
                Some(obstacle) => return Ok(Err(obstacle)),
                None => return Ok(Ok(())),
            }
            self.wait(Some(LOOK))?;
        }
    }
}

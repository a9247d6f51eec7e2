//! The chains of a graph, as JSON for scripts/overlay.

mod answers;
mod bench;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use overlay_paths::{Graph, Rounds, floyd_warshall, read};
use serde::Serialize;
use tributary_program::{Exit, Failure};

/// Computes which chain of converters a transfer should take, from the round-trip times between them.
///
/// Prints one JSON object. A GRAPH has one link per line, NODE NODE MILLISECONDS (round trip), once or in both directions;
/// pairs without one get the delay of the shortest path.
#[derive(Debug, Parser)]
#[command(name = "overlay-paths", version, after_help = AFTER)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const AFTER: &str = "\
Exit status:
  0   done
  64  wrong arguments, such as a node that the graph has not
  65  the graph is refused: its line, and what is wrong with it
  66  the graph cannot be read";

#[derive(Debug, Subcommand)]
enum Command {
    /// The best chain between two nodes, and all candidates
    Paths {
        /// The file with the round-trip times
        graph: PathBuf,
        /// The ingress
        ingress: String,
        /// The egress
        egress: String,
        /// Round trips of the transfer, from 1 to 60
        #[arg(long, default_value = "5", value_parser = rounds)]
        rounds: Rounds,
    },
    /// Compare the best chains of all pairs with chains chosen by length alone, or by the longest hop alone
    Simulate {
        /// The file with the round-trip times
        graph: PathBuf,
        /// Numbers of rounds
        #[arg(long, default_value = "1,5,10", value_delimiter = ',', value_parser = rounds)]
        rounds: Vec<Rounds>,
        /// Compare also for nodes that measure only so many others, 4 to 1000
        #[arg(long, value_parser = clap::value_parser!(u16).range(4..=1000))]
        peers: Option<u16>,
    },
    /// The delays of all nodes, and the links that the best chains of all pairs use
    Map {
        /// The file with the round-trip times
        graph: PathBuf,
        /// Round trips of transfers, from 1 to 60
        #[arg(long, default_value = "5", value_parser = rounds)]
        rounds: Rounds,
    },
    /// Time all pairs of 115 and of 315 nodes, and a lookup
    Bench {
        /// How often all pairs are computed
        #[arg(long, default_value = "9", value_parser = clap::value_parser!(u32).range(1..))]
        repeat: u32,
    },
}

fn main() -> ExitCode {
    tributary_program::main(|arguments: Arguments| run(&arguments.command))
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Paths {
            graph,
            ingress,
            egress,
            rounds,
        } => {
            let mesh = mesh(graph)?;
            let [ingress, egress] = [ingress, egress].map(|name| {
                let unknown = || {
                    Failure::new(
                        Exit::Usage,
                        format!("{name} is no node of {}: accepted: {}", graph.display(), some(&mesh)),
                    )
                };
                mesh.node(name).ok_or_else(unknown)
            });
            print(&answers::paths(mesh.clone(), ingress?, egress?, *rounds))
        }
        Command::Simulate { graph, rounds, peers } => {
            print(&answers::simulate(mesh(graph)?, rounds, peers.map(usize::from)))
        }
        Command::Map { graph, rounds } => print(&answers::map(mesh(graph)?, *rounds)),
        Command::Bench { repeat } => print(&bench::measure(*repeat)),
    }
}

fn mesh(path: &Path) -> Result<Graph, Failure> {
    let bytes = fs::read(path).map_err(Failure::unreadable(path))?;
    let refused = |what: String| Failure::new(Exit::BadData, format!("{}, {what}", path.display()));
    let text = String::from_utf8(bytes).map_err(|error| refused(error.utf8_error().to_string()))?;
    read(&text)
        .map(|graph| floyd_warshall::full_mesh(&graph))
        .map_err(refused)
}

/// The first names of a graph, as examples.
fn some(graph: &Graph) -> String {
    match graph.names() {
        [one, other, third, _, ..] => format!("{one}, {other}, {third}, ..."),
        few => few.join(", "),
    }
}

fn rounds(text: &str) -> Result<Rounds, String> {
    let count = text.parse().ok().filter(|count| *count <= 60);
    count
        .and_then(Rounds::new)
        .ok_or_else(|| "accepted: a whole number from 1 to 60".into())
}

fn print(answer: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(answer).map_err(|error| Failure::new(Exit::System, error.to_string()))?;
    println!("{text}");
    Ok(())
}

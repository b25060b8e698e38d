//! The dependency graph of a task, by process number.
//!
//! Built once and never changed. The file that a task is read from has been
//! checked before; the same rules are checked here again, because the plan relies
//! on them (a dependency on a daemon's success would silently wait for ever) and because the definition may come from a damaged disk.

use std::collections::BTreeMap;

use baton_model::task::{Condition, ProcessName, ProcessNo, TaskSpec};

/// A definition that breaks a rule which the plan relies on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error("a task has too many processes to number them")]
    TooManyProcesses,
    #[error("two processes are called {0}; rename one")]
    DuplicateName(ProcessName),
    #[error("{0} comes after {1}, which does not exist")]
    UnknownName(ProcessName, ProcessName),
    #[error("{0} comes after itself; break the cycle")]
    Cycle(ProcessName),
    #[error(
        "{0} waits for the end of the daemon {1}, which has none; wait until it is started or healthy"
    )]
    EndOfDaemon(ProcessName, ProcessName),
    #[error("{0} comes after {1}, which is ephemeral; make {0} ephemeral too")]
    OnEphemeral(ProcessName, ProcessName),
    #[error("{0} comes after {1}, but only one of them is final; final processes always come last")]
    AcrossPlans(ProcessName, ProcessName),
}

/// Dependencies in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Graph {
    by_name: BTreeMap<ProcessName, ProcessNo>,
    before: Vec<Vec<(ProcessNo, Condition)>>,
    after: Vec<Vec<(ProcessNo, Condition)>>,
}

impl Graph {
    /// The graph of a task.
    pub(super) fn new(spec: &TaskSpec) -> Result<Self, SpecError> {
        let by_name = numbered(spec)?;
        let count = spec.processes.len();
        let mut graph = Self {
            by_name,
            before: vec![Vec::new(); count],
            after: vec![Vec::new(); count],
        };
        for process in &spec.processes {
            let no = graph.by_name[&process.name];
            for dependency in &process.after {
                let other = graph.find(&dependency.process).ok_or_else(|| {
                    SpecError::UnknownName(process.name.clone(), dependency.process.clone())
                })?;
                check_arrow(spec, no, other, dependency.condition)?;
                graph.before[no.index()].push((other, dependency.condition));
                graph.after[other.index()].push((no, dependency.condition));
            }
        }
        graph.check_cycles(spec)?;
        Ok(graph)
    }

    /// The number of a name.
    pub(super) fn find(&self, name: &ProcessName) -> Option<ProcessNo> {
        self.by_name.get(name).copied()
    }

    /// The dependencies of this process.
    pub(super) fn before(&self, no: ProcessNo) -> &[(ProcessNo, Condition)] {
        &self.before[no.index()]
    }

    /// The downstream processes.
    pub(super) fn after(&self, no: ProcessNo) -> &[(ProcessNo, Condition)] {
        &self.after[no.index()]
    }

    /// Finds a cycle: repeatedly removes processes without dependencies; what remains is in
    /// or behind a cycle.
    fn check_cycles(&self, spec: &TaskSpec) -> Result<(), SpecError> {
        let mut open: Vec<usize> = self.before.iter().map(Vec::len).collect();
        let mut free: Vec<usize> = (0..open.len()).filter(|&index| open[index] == 0).collect();
        while let Some(index) = free.pop() {
            for (other, _) in &self.after[index] {
                open[other.index()] -= 1;
                if open[other.index()] == 0 {
                    free.push(other.index());
                }
            }
        }
        match open.iter().position(|&count| count > 0) {
            Some(index) => Err(SpecError::Cycle(spec.processes[index].name.clone())),
            None => Ok(()),
        }
    }
}

fn numbered(spec: &TaskSpec) -> Result<BTreeMap<ProcessName, ProcessNo>, SpecError> {
    let mut by_name = BTreeMap::new();
    for (index, process) in spec.processes.iter().enumerate() {
        let no = u32::try_from(index).map_err(|_| SpecError::TooManyProcesses)?;
        if by_name
            .insert(process.name.clone(), ProcessNo(no))
            .is_some()
        {
            return Err(SpecError::DuplicateName(process.name.clone()));
        }
    }
    Ok(by_name)
}

fn check_arrow(
    spec: &TaskSpec,
    from: ProcessNo,
    to: ProcessNo,
    condition: Condition,
) -> Result<(), SpecError> {
    let (who, whom) = (&spec.processes[from.index()], &spec.processes[to.index()]);
    let both = || (who.name.clone(), whom.name.clone());
    let for_the_end = matches!(condition, Condition::Success | Condition::Exit);
    if who.is_final != whom.is_final {
        let (who, whom) = both();
        Err(SpecError::AcrossPlans(who, whom))
    } else if for_the_end && whom.daemon {
        let (who, whom) = both();
        Err(SpecError::EndOfDaemon(who, whom))
    } else if whom.ephemeral && !who.ephemeral {
        let (who, whom) = both();
        Err(SpecError::OnEphemeral(who, whom))
    } else {
        Ok(())
    }
}

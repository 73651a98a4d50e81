//! A path of a pattern made ready for the tree: texts become numbers, and what a wildcard said
//! about a component is remembered.

use plumbago_model::glob::{Component, Path, States, Step};

use crate::components::Components;

/// A wildcard is simply asked this many times before its answers are kept in a table.
const ASKED_MAX: u32 = 64;
/// So many compared characters count as one visited node.
const CHARACTERS_PER_VISIT: usize = 64;

/// How the steps of a path are decided. Good for one state of the tree; [`Plan::resolve`] again
/// after changes.
#[derive(Debug)]
pub(crate) struct Plan<'p> {
    path: &'p Path,
    tests: Vec<Test>,
    /// For each step, the exact components that have to follow it.
    chains: Vec<Chain>,
    /// Visits that comparing characters has cost since it was last asked for.
    cost: usize,
}

#[derive(Debug)]
enum Test {
    Always,
    /// The numbers of the texts, in the order of the texts (none for a text that no name has),
    /// and the known ones in order of number.
    Literals(Vec<Option<u32>>, Vec<u32>),
    Remembered(Memo),
}

/// Exact components that follow a step one after the other.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// Their numbers.
    pub(crate) components: Vec<u32>,
    /// True when the path ends behind them.
    pub(crate) is_end: bool,
}

/// Answers by component number: 0 not asked, 1 no, 2 yes.
#[derive(Debug, Default)]
struct Memo {
    asked: u32,
    answers: Vec<u8>,
}

/// How the children of a directory are gone through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// One after the other.
    Scan,
    /// By looking for each text of this step.
    Literals(usize),
}

impl<'p> Plan<'p> {
    pub(crate) fn new(path: &'p Path, components: &Components) -> Self {
        let mut plan = Self { path, tests: Vec::new(), chains: Vec::new(), cost: 0 };
        for step in path.steps() {
            plan.tests.push(match step {
                Step::Component(own) if own.wildcards().is_empty() => Test::Literals(Vec::new(), Vec::new()),
                Step::Component(own) if !own.is_any() => Test::Remembered(Memo::default()),
                _ => Test::Always,
            });
        }
        plan.resolve(components, true);
        plan
    }

    /// Takes the tree's numbers again. `renumbered` says whether old ones may mean other texts now.
    pub(crate) fn resolve(&mut self, components: &Components, renumbered: bool) {
        for (test, step) in self.tests.iter_mut().zip(self.path.steps()) {
            match (test, step) {
                (Test::Literals(numbers, sorted), Step::Component(own)) => {
                    let texts = own.literals().iter();
                    *numbers = texts.map(|text| components.find(text.as_bytes())).collect();
                    *sorted = numbers.iter().flatten().copied().collect();
                    sorted.sort_unstable();
                }
                (Test::Remembered(memo), _) if renumbered => *memo = Memo::default(),
                _ => {}
            }
        }
        self.chains = (1..=self.tests.len()).map(|next| self.chain_from(next)).collect();
    }

    /// True when a step needs a text that no name has.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.tests.iter().any(|test| matches!(test, Test::Literals(_, known) if known.is_empty()))
    }

    pub(crate) fn start(&self) -> States {
        self.path.start()
    }

    #[inline]
    pub(crate) fn accepts(&self, states: States) -> bool {
        self.path.accepts(states)
    }

    #[inline]
    pub(crate) fn unfinished(&self, states: States) -> States {
        self.path.unfinished(states)
    }

    /// The states after one more component.
    #[inline]
    pub(crate) fn next(&mut self, states: States, components: &Components, component: u32) -> States {
        let (tests, cost) = (&mut self.tests, &mut self.cost);
        self.path.next(states, |number, own| match tests.get_mut(number) {
            Some(Test::Always) => true,
            Some(Test::Literals(_, sorted)) => match sorted.as_slice() {
                [only] => *only == component,
                many => many.binary_search(&component).is_ok(),
            },
            Some(Test::Remembered(memo)) => memo.ask(own, components, component, cost),
            None => false,
        })
    }

    /// How to go through a directory. `is_longer` tells whether it has more children than a number.
    pub(crate) fn way(&self, states: States, is_longer: impl Fn(usize) -> bool) -> Way {
        match states.single().map(|number| (number, self.tests.get(number))) {
            Some((number, Some(Test::Literals(numbers, _)))) if is_longer(numbers.len() / 2) => {
                Way::Literals(number)
            }
            _ => Way::Scan,
        }
    }

    /// What has to follow the step, when there is only one and it is known.
    #[inline]
    pub(crate) fn chain(&self, states: States) -> Option<&Chain> {
        self.chains.get(states.single()?).filter(|chain| !chain.components.is_empty())
    }

    /// The numbers of the texts of a step, in the order of the texts.
    #[inline]
    pub(crate) fn literals(&self, step: usize) -> &[Option<u32>] {
        match self.tests.get(step) {
            Some(Test::Literals(numbers, _)) => numbers,
            _ => &[],
        }
    }

    /// What every component that leads on begins with.
    pub(crate) fn prefix(&self, states: States) -> &'p [u8] {
        match states.single().and_then(|number| self.path.steps().get(number)) {
            Some(Step::Component(own)) => own.prefix().as_bytes(),
            _ => &[],
        }
    }

    fn chain_from(&self, start: usize) -> Chain {
        let mut chain = Chain::default();
        for test in &self.tests[start..] {
            match test {
                Test::Literals(all, known) if all.len() == 1 => chain.components.extend(known),
                _ => return chain,
            }
        }
        chain.is_end = true;
        chain
    }

    /// Visits to charge for comparing since the last call.
    #[inline]
    pub(crate) fn take_cost(&mut self) -> usize {
        std::mem::take(&mut self.cost)
    }
}

impl Memo {
    fn ask(&mut self, own: &Component, components: &Components, component: u32, cost: &mut usize) -> bool {
        let number = component as usize;
        if let Some(answer @ 1..) = self.answers.get(number) {
            return *answer == 2;
        }
        let bytes = components.text(component);
        *cost += own.cost(bytes.len()) / CHARACTERS_PER_VISIT;
        let answer = std::str::from_utf8(bytes).is_ok_and(|text| own.matches(text));
        self.asked = self.asked.saturating_add(1);
        if self.asked > ASKED_MAX {
            if number >= self.answers.len() {
                self.answers.resize((number + 1).next_power_of_two(), 0);
            }
            self.answers[number] = 1 + u8::from(answer);
        }
        answer
    }
}

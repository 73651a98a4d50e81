//! A path of a pattern, prepared for the tree: exact texts become component numbers, and the results of
//! wildcards are cached.

use plumbago_model::glob::{Component, Path, States, Step};

use crate::components::Components;

/// A wildcard is evaluated this many times before its results are cached in a table.
const ASKED_MAX: u32 = 64;
/// The number of compared characters that count as one visited node.
const CHARACTERS_PER_VISIT: usize = 64;

/// How the steps of a path match components. The plan is valid for one state of the tree; after changes
/// [`WalkPlan::resolve`] must be called again.
#[derive(Debug)]
pub(crate) struct WalkPlan<'p> {
    path: &'p Path,
    tests: Vec<Test>,
    /// For each step, the exact components that must follow it.
    chains: Vec<Chain>,
    /// The number of visits that the compared characters cost since the last [`WalkPlan::take_cost`].
    cost: usize,
}

#[derive(Debug)]
enum Test {
    Always,
    /// The component numbers of the exact texts in the order of the texts (`None` for a text that no name has),
    /// and the known ones sorted by number.
    Literals(Vec<Option<u32>>, Vec<u32>),
    Remembered(Memo),
}

/// Exact components that must follow a step.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// The component numbers.
    pub(crate) components: Vec<u32>,
    /// Whether the path ends after these components.
    pub(crate) is_end: bool,
}

/// Cached results by component number: 0 unknown, 1 no match, 2 match.
#[derive(Debug, Default)]
struct Memo {
    asked: u32,
    answers: Vec<u8>,
}

/// How the children of a directory are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// All children in order.
    Scan,
    /// Only the exact texts of this step.
    Literals(usize),
}

impl<'p> WalkPlan<'p> {
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

    /// Looks up the component numbers again. `renumbered` says whether old numbers may have a new meaning.
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

    /// Whether a step needs a text that occurs in no name.
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

    /// The states after another component.
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

    /// How to search a directory. `is_longer` says whether it has more children than a given number.
    pub(crate) fn way(&self, states: States, is_longer: impl Fn(usize) -> bool) -> Way {
        match states.single().map(|number| (number, self.tests.get(number))) {
            Some((number, Some(Test::Literals(numbers, _)))) if is_longer(numbers.len() / 2) => {
                Way::Literals(number)
            }
            _ => Way::Scan,
        }
    }

    /// The components that must follow the step, if there is only one step and they are exact.
    #[inline]
    pub(crate) fn chain(&self, states: States) -> Option<&Chain> {
        self.chains.get(states.single()?).filter(|chain| !chain.components.is_empty())
    }

    /// The component numbers of the exact texts of a step, in the order of the texts.
    #[inline]
    pub(crate) fn literals(&self, step: usize) -> &[Option<u32>] {
        match self.tests.get(step) {
            Some(Test::Literals(numbers, _)) => numbers,
            _ => &[],
        }
    }

    /// The prefix that all matching components share.
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

    /// The number of visits that comparisons cost since the last call.
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

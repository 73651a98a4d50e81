//! Results remembered for components, by their numbers.

use crate::words::Qualities;

const PAGE: usize = 4096;
const KNOWN: u16 = 1 << 15;

/// What a search knows about components. Numbers of components have gaps, and many are never asked for, so
/// memory is taken by pages.
#[derive(Debug, Default)]
pub(crate) struct Memo(Vec<Option<Box<[u16; PAGE]>>>);

impl Memo {
    #[inline]
    pub(crate) fn get(&self, component: u32) -> Option<Qualities> {
        let page = self.0.get(component as usize / PAGE)?.as_ref()?;
        let entry = page[component as usize % PAGE];
        (entry & KNOWN != 0).then_some(entry & !KNOWN)
    }

    pub(crate) fn set(&mut self, component: u32, qualities: Qualities) {
        let number = component as usize / PAGE;
        if number >= self.0.len() {
            self.0.resize(number + 1, None);
        }
        let page = self.0[number].get_or_insert_with(|| Box::new([0; PAGE]));
        page[component as usize % PAGE] = qualities | KNOWN;
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

use std::fmt;

use xoff_wire::units::{CLASSES, Class, ClassSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Root,
    Line,
    /// Filter that drops wake frames, which only make the kernel poll its queues.
    Waker,
    Classifier,
    /// Filter or class of another program that precedes those of the agent.
    Foreign,
    Class(Class),
    Leaf(Class),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defects(u32);

impl Defects {
    pub const NONE: Defects = Defects(0);

    const PARTS: [Part; 5] = [Part::Root, Part::Line, Part::Waker, Part::Classifier, Part::Foreign];
    const CLASSES: usize = 8;
    const LEAFS: usize = Defects::CLASSES + CLASSES;

    const fn bit(part: Part) -> u32 {
        1 << match part {
            Part::Root => 0,
            Part::Line => 1,
            Part::Waker => 2,
            Part::Classifier => 3,
            Part::Foreign => 4,
            Part::Class(class) => Defects::CLASSES + class.index(),
            Part::Leaf(class) => Defects::LEAFS + class.index(),
        }
    }

    pub const fn insert(&mut self, part: Part) {
        self.0 |= Defects::bit(part);
    }

    #[must_use]
    pub const fn contains(self, part: Part) -> bool {
        self.0 & Defects::bit(part) != 0
    }

    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the classes whose frames may leave despite a stop, because of these defects.
    #[must_use]
    pub fn reach(self) -> ClassSet {
        let of_all =
            [Part::Root, Part::Classifier, Part::Foreign].into_iter().any(|part| self.contains(part));
        let is_open =
            |class: &Class| of_all || self.contains(Part::Class(*class)) || self.contains(Part::Leaf(*class));
        Class::ALL.into_iter().filter(is_open).collect()
    }

    #[must_use]
    pub fn to_number(self) -> u64 {
        self.0.into()
    }

    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // the number had 32 bits
    pub const fn from_number(number: u64) -> Defects {
        Defects(number as u32)
    }

    fn parts(self) -> impl Iterator<Item = Part> {
        let of_classes = Class::ALL.into_iter().flat_map(|class| [Part::Class(class), Part::Leaf(class)]);
        Defects::PARTS.into_iter().chain(of_classes).filter(move |&part| self.contains(part))
    }
}

impl FromIterator<Part> for Defects {
    fn from_iter<T: IntoIterator<Item = Part>>(parts: T) -> Defects {
        let mut defects = Defects::NONE;
        parts.into_iter().for_each(|part| defects.insert(part));
        defects
    }
}

impl fmt::Display for Defects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.contains(Part::Root) {
            return f.write_str("the root queueing discipline, and all below it");
        }
        for (index, part) in self.parts().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            match part {
                Part::Root => {}
                Part::Line => f.write_str("the shaper of the line")?,
                Part::Waker => f.write_str("the filter that wakes queues")?,
                Part::Classifier => f.write_str("the filter that classifies frames")?,
                Part::Foreign => f.write_str("a filter or class of another program")?,
                Part::Class(class) => write!(f, "the shaper of class {class}")?,
                Part::Leaf(class) => write!(f, "the queue of class {class}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const C3: Class = Class::ALL[3];

    #[test]
    fn queue_defect_affects_all_classes_no_class_or_one_class() {
        let reach = |part| [part].into_iter().collect::<Defects>().reach();
        let only = |class: Class| [class].into_iter().collect::<ClassSet>();
        for part in [Part::Root, Part::Classifier, Part::Foreign] {
            assert_eq!(reach(part), ClassSet::ALL, "{part:?}");
        }
        for part in [Part::Line, Part::Waker] {
            assert_eq!(reach(part), ClassSet::NONE, "{part:?}");
        }
        for part in [Part::Class(C3), Part::Leaf(C3)] {
            assert_eq!(reach(part), only(C3), "{part:?}");
        }
    }

    #[test]
    fn queue_defects_survive_conversion_to_number_and_back() {
        let defects: Defects = [Part::Leaf(C3), Part::Classifier].into_iter().collect();
        assert_eq!(defects.to_string(), "the filter that classifies frames, the queue of class 3");
        assert_eq!(Defects::from_number(defects.to_number()), defects);
        assert!(!defects.contains(Part::Class(C3)) && !defects.is_empty() && Defects::NONE.is_empty());
    }
}

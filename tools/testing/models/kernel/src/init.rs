// SPDX-License-Identifier: GPL-2.0

//! Initialisers: values, which have not been put anywhere yet.

pub trait PinInit<T> {
    fn init(self) -> T;
}

impl<T> PinInit<T> for T {
    fn init(self) -> T {
        self
    }
}

#[doc(hidden)]
pub fn field<T>(value: impl PinInit<T>) -> T {
    value.init()
}

#[macro_export]
macro_rules! pin_init {
    ($type:ident { $($fields:tt)* }) => {
        $crate::pin_init!(@ $type [] $($fields)*)
    };
    (@ $type:ident [$($done:tt)*]) => {
        $type { $($done)* }
    };
    (@ $type:ident [$($done:tt)*] $name:ident <- $value:expr, $($rest:tt)*) => {
        $crate::pin_init!(@ $type [$($done)* $name: $crate::__field($value),] $($rest)*)
    };
    (@ $type:ident [$($done:tt)*] $name:ident : $value:expr, $($rest:tt)*) => {
        $crate::pin_init!(@ $type [$($done)* $name: $value,] $($rest)*)
    };
    (@ $type:ident [$($done:tt)*] $name:ident, $($rest:tt)*) => {
        $crate::pin_init!(@ $type [$($done)* $name,] $($rest)*)
    };
}

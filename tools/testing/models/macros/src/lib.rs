// SPDX-License-Identifier: GPL-2.0

//! The attributes of the kernel's pin-init, as far as the driver's files that the models run use
//! them. Nothing is pinned here: the models do not move what they share.
#![forbid(unsafe_code)]

use proc_macro::{Group, TokenStream, TokenTree};

/// Leaves out `#[pin]`.
#[proc_macro_attribute]
pub fn pin_data(_: TokenStream, item: TokenStream) -> TokenStream {
    without_pin(item)
}

/// Leaves the implementation out: the models do not drop such objects.
#[proc_macro_attribute]
pub fn pinned_drop(_: TokenStream, _: TokenStream) -> TokenStream {
    TokenStream::new()
}

fn without_pin(from: TokenStream) -> TokenStream {
    let mut to: Vec<TokenTree> = Vec::new();
    for token in from {
        match token {
            TokenTree::Group(group) if group.stream().to_string() == "pin" => {
                // The number sign in front of it.
                to.pop();
            }
            TokenTree::Group(group) => {
                let inner = without_pin(group.stream());
                to.push(Group::new(group.delimiter(), inner).into());
            }
            other => to.push(other),
        }
    }
    to.into_iter().collect()
}

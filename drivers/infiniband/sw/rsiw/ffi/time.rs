// SPDX-License-Identifier: GPL-2.0

//! Clocks, and timers of reference-counted objects.
//!
//! A [`timer::Timer`] (milliseconds) or [`hrtimer::ShortTimer`] (microseconds) is a part of its
//! object. While it runs it has a reference to the object, which the callback gets: so nobody has
//! to keep a handle, and the object does not go away under the callback. Starting a timer of the
//! kernel crate ([`kernel::time::hrtimer`]) returns a handle that waits for the callback when it is
//! dropped, which cannot be done in softirq, where these are started; the kernel crate has no
//! `timer_list`. [`clock`] reads the monotonic clock and that of the day as plain nanoseconds.
//!
//! # Context
//!
//! Timers are started in any context, also again while they run. Callbacks come in softirq.
//! Stopping waits for the callback: process context, without a lock that the callback takes.
//!
//! # Examples
//!
//! ```
//! use crate::ffi::time::timer::{Expires, Timer};
//! use kernel::{prelude::*, sync::Arc};
//!
//! #[pin_data]
//! struct Request {
//!     #[pin]
//!     timer: Timer<Self>,
//! }
//!
//! impl Expires for Request {
//!     fn timer(&self) -> &Timer<Self> {
//!         &self.timer
//!     }
//!
//!     fn expired(_this: Arc<Self>) {
//!         pr_info!("no answer for a second\n");
//!     }
//! }
//!
//! fn ask() -> Result<Arc<Request>> {
//!     let request = Arc::pin_init(pin_init!(Request { timer <- Timer::new() }), GFP_KERNEL)?;
//!     Timer::start(&request, 1000);
//!     Ok(request)
//! }
//!
//! fn answered(request: &Arc<Request>) {
//!     Timer::stop(request);
//! }
//! ```

pub(crate) mod clock;
pub(crate) mod hrtimer;
pub(crate) mod timer;

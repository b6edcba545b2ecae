// SPDX-License-Identifier: GPL-2.0

//! CRC32c bit by bit (RFC 3720 appendix B.4, RFC 5044 section 4.4): shares nothing with the
//! driver's.
#![forbid(unsafe_code)]

/// The four octets of an FPDU's CRC field over `bytes`.
pub fn crc32c(bytes: &[u8]) -> [u8; 4] {
    let mut crc = !0u32;
    for &b in bytes {
        crc ^= u32::from(b);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ 0x82f6_3b78
            } else {
                crc >> 1
            };
        }
    }
    (!crc).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that every description of CRC32c gives.
    #[test]
    fn check_value() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283u32.to_le_bytes());
    }
}

"""Images: Debian, the packages of Tributary and what an image alone needs, as a disk that boots."""

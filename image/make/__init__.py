"""Images: Debian, the packages of Tributary and what Ansible makes of them, as a disk that boots."""

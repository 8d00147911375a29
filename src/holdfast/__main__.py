"""`python -m holdfast` is the `holdfast` command."""

import sys

from holdfast.surfaces.cli import main

sys.exit(main())

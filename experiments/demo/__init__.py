"""The main job, end to end: download without and with the converter, throttle one subflow, show it."""

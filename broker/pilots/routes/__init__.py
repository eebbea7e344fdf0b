"""The HTTP API of pilots and pilot factories: matches and why there is none, demand; PanDA's own API in ``panda``."""

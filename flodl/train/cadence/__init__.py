"""Training of one model by ranks that train alone for a while, then average: policy Cadence. Alpha."""

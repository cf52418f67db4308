"""What carries calls to the servicer. A transport knows the wire; the servicer knows none."""

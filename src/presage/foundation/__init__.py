"""The model of scheduler behaviour: forecasts of waits, run times and outcomes, load, and anomalies."""

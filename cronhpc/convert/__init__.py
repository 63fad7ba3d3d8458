"""Other schedulers' tables to entries; pure.

    bytes --crontab.read | scrontab.read--> Table --entries.named--> Imported (name, path, script)

Every line of a table is accounted for: it is blank, a comment, a variable, options or an entry, or it is reported.
"""
